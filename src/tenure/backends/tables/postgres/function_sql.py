"""The texts of the functions of a table: templates, with the statements of the operations in them."""

import secrets
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

from tenure.backends.postgres.settings import PLANNER
from tenure.backends.protocol import SWEEP
from tenure.backends.shared.sql_files import parts
from tenure.backends.tables.postgres.admin_connection import Hand
from tenure.backends.tables.postgres.claim import MOST_LOOKS
from tenure.backends.tables.postgres.layout import KEY_TYPES, Layout, literal
from tenure.backends.tables.postgres.params import bound
from tenure.backends.tables.postgres.settle import PREVENTED
from tenure.backends.tables.postgres.sql_templates import Wording
from tenure.backends.tables.postgres.statements import numbered
from tenure.core import checks, operations, payload
from tenure.core.operations import Holding, Move
from tenure.core.table.condition import with_values
from tenure.core.table.spec import TableSpec, made_name, quoted
from tenure.core.transitions import RULES

STATEMENTS = {
    "take": ("claim", "take"),
    "reap": ("reap", "expired"),
    "extend": ("extend", "extend"),
    "settle": ("settle", "settle"),
    "retry": ("move", "retry"),
}
"""Which statements of the operations stand in functions."""


class FunctionTexts:
    """What makes the functions of one table. The server is asked of which types the user's values are."""

    def __init__(self, hand: Hand, layout: Layout) -> None:
        self._hand = hand
        self._layout = layout
        self._wording = Wording(layout)
        self._types = self._described()

    def all(self) -> Iterator[tuple[str, str]]:
        """Yield the name of each, without that of the table, and what makes it."""
        schema, table = self._layout.table.schema, self._layout.table.name
        fragments = {name: _with_variables(each) for name, each in self._wording.fragments.items()}
        shared = {**fragments, **_constants(self._layout.spec), **self._shared()}
        for name, template in parts(__package__, "functions").items():
            own = made_name(name, table)
            more = {**self._named(own, TAKEN.get(name, ())), "place": f"{quoted(schema)}.{quoted(own)}"}
            yield name, _quoted_body(template.format(**{**shared, **more}))

    def _shared(self) -> dict[str, Any]:
        layout, statements = self._layout, {}
        for name, (operation, statement) in STATEMENTS.items():
            # The row is returned as the type that it has, and not as texts.
            text = self._wording.text(operation, statement, {"texts": "cast(null as json)"})
            statements[name] = _with_variables(text).replace("\n", "\n  ")
        columns = self._columns()
        free = _free({name for name, _ in columns}, ("fence", "token"), "claim")
        returned = [*columns, (free["fence"], "bigint"), (free["token"], "text")]
        attempts = layout.spec.max_attempts
        keys = range(1, len(layout.key) + 1)
        return {
            "sql": statements,
            "claimed": f"{quoted(layout.table.schema)}.{quoted(made_name('claimed', layout.table.name))}",
            "returned": ",\n  ".join(f"{quoted(name)} {kind}" for name, kind in returned),
            "shown_columns": ", ".join(f"cast({layout.apart}.{quoted(name)} as {kind})" for name, kind in columns),
            "invoked": self._invoked(),
            "is_last": "false" if attempts is None else f"tenure_call.attempts >= {attempts}",
            "constants": self._declared(self._default),
            "retry_variables": "".join(
                f"\n  retry_{n} {column.base} := {_cast(f'on_retry[{name!r}]', value, column.base)};"
                for n, (column, (name, value)) in enumerate(
                    zip(layout.on_retry, layout.spec.on_retry.items(), strict=True), start=1
                )
            ),
            "key_variables": "".join(
                f"\n  key_{n} {KEY_TYPES[column.base]}[];" for n, column in enumerate(layout.key, start=1)
            ),
            "keys_gathered": ", ".join(
                f"array_agg(cast(found.key_{n} as {KEY_TYPES[column.base]}))"
                for n, column in enumerate(layout.key, start=1)
            ),
            "key_targets": ", ".join(f"tenure_call.key_{n}" for n in keys),
        }

    def _named(self, own: str, taken: Sequence[str]) -> dict[str, str]:
        """Return what depends on the name of a function and on the names that its parameters have."""
        layout, function = self._layout, quoted(own)
        filters = _free(set(taken), list(layout.spec.params), "filter")
        names = _free(set(taken), [each.name for each in layout.key], "key")
        keys = {each: f"{function}.{quoted(names[each.name])}" for each in layout.key}
        return {
            "self": function,
            "filters": "".join(
                f",\n  {quoted(name)} {self._types[each]} default {self._default(each)}"
                for each, name in filters.items()
            ),
            "variables": self._declared(lambda name: f"{function}.{quoted(filters[name])}"),
            "key_parameters": ",\n  ".join(f"{quoted(names[each.name])} {KEY_TYPES[each.base]}" for each in layout.key),
            "key_texts": ", ".join(f"cast({name} as text)" for name in keys.values()),
            "job_is_named": " and ".join(f"job.{quoted(each.name)} = {name}" for each, name in keys.items()),
        }

    def _declared(self, value: Callable[[str], str]) -> str:
        """Return the variables that have the values of conditions."""
        return "".join(f'\n  "param_{name}" {kind} := {value(name)};' for name, kind in self._types.items())

    def _default(self, name: str) -> str:
        return _cast(f"params[{name!r}]", self._layout.spec.params[name], self._types[name])

    def _columns(self) -> list[tuple[str, str]]:
        """Return the user's columns with their types, and those that are added and shown."""
        added = [part for part in self._layout.missing if not self._layout.is_ours(part.role)]
        return [
            *((each.name, each.base) for each in self._layout.columns),
            *((part.name, self._layout.definition(part.role).split()[0]) for part in added),
        ]

    def _invoked(self) -> str:
        ((path,),) = self._hand.rows(SEARCH_PATH)
        settings = {
            "search_path": ", ".join([*(quoted(each) for each in path), "pg_temp"]),
            "standard_conforming_strings": "on",
            **PLANNER,
        }
        return "\n".join(
            ["language plpgsql", "security invoker", *(f"set {name} = {value}" for name, value in settings.items())]
        )

    def _described(self) -> dict[str, str]:
        """Return of which type each value of the conditions is: as the server tells it by its place."""
        spec = self._layout.spec
        conditions = [each.written("param") for each in (spec.where, spec.done_if) if each is not None]
        if not spec.params:
            return {}
        told = ", ".join(f"({each})" for each in conditions)
        question = numbered(f"select {told} from {self._layout.table.place} {self._layout.alias}", is_prepared=False)  # noqa: S608
        name = f"tenure_{secrets.token_hex(12)}"
        self._hand.run(f"prepare {name} as {question.text.decode()}")
        rows = self._hand.rows(TYPES, {"name": name})
        self._hand.run(f"deallocate {name}")
        return {name.removeprefix("param_"): kind for name, (kind,) in zip(question.names, rows, strict=True)}


def _with_variables(text: Any) -> Any:
    """Return a text in which each value is a variable. The moment is never given: it is the server's."""
    if not isinstance(text, str):
        return text
    return with_values(text, lambda name: "null" if name == "now" else f'tenure_call."{name}"')


def _free(taken: set[str], names: Sequence[str], prefix: str) -> dict[str, str]:
    """Return for each name one that is not taken."""
    found: dict[str, str] = {}
    for name in names:
        free = name
        while free in taken:
            free = f"{prefix}_{free}"
        found[name] = free
    return found


def _cast(option: str, value: object, kind: str) -> str:
    text = bound(option, value)
    return f"cast({'null' if text is None else literal(text)} as {kind})"


def _quoted_body(text: str) -> str:
    """Return it in quotes that do not stand in it."""
    tag = "$tenure$"
    while tag in text:
        tag = f"{tag[:-1]}_$"
    return text.replace(QUOTE, tag)


def _constants(spec: TableSpec) -> dict[str, Any]:
    backoff = spec.backoff
    rules = {
        f"{outcome}_rule": SimpleNamespace(
            outcome=outcome, state=rule.state, when_spent=rule.when_spent, attempts=rule.attempts
        )
        for outcome, rule in RULES.items()
    }
    return {
        **rules,
        "quote": QUOTE,
        "refused": "raise exception using errcode = 'invalid_parameter_value', message =",
        "seen": SEEN,
        "leased": LEASED.format(shortest=operations.SHORTEST_LEASE, longest=operations.LONGEST_LEASE),
        "lease": f"{spec.lease:.15g}",
        "sweep": SWEEP,
        "most_looks": MOST_LOOKS,
        "largest_batch": operations.LARGEST_BATCH,
        "name_form": f"^[^[:cntrl:]]{{1,{checks.LONGEST_NAME}}}$",
        "longest_name": checks.LONGEST_NAME,
        "longest_result": payload.LONGEST,
        "longest_error": checks.LONGEST_ERROR,
        "longest_delay": f"{checks.LONGEST_DELAY:.0f}",
        "cut": literal(checks.CUT),
        # A character has up to four bytes.
        "error_kept": (checks.LONGEST_ERROR - len(checks.CUT.encode())) // 4,
        "prevented": PREVENTED,
        "lost": Holding.LOST,
        "retry": Move.RETRY,
        "backoff_first": f"{backoff.first:.15g}",
        "backoff_factor": f"{backoff.factor:.15g}",
        "backoff_cap": f"{backoff.cap:.15g}",
    }


QUOTE = "\0"
"""Stands for the quotes of a body until all of it is there; no text of the user's has it."""

LEASED = """\
if tenure_call.lease_seconds is null or tenure_call.lease_seconds not between {shortest:g} and {longest:g} then
    raise exception using
      errcode = 'invalid_parameter_value',
      message = format('lease_seconds must be {shortest:g} to {longest:g}, not %s', tenure_call.lease_seconds);
  end if;
  tenure_call.lease := cast(1000000 * tenure_call.lease_seconds as bigint);"""

SEEN = """\
if not tenure_call.landed and tenure_call.answer ->> 1 <> 'read committed' then
    raise exception using
      errcode = 'invalid_transaction_state',
      message = 'this transaction may have begun before the claim, and cannot tell whether that is lost',
      hint = 'use one that is read committed';
  end if;"""

TAKEN = {
    "claim": ("limit", "lease_seconds", "worker", "token"),
    "extend": ("fence", "token", "lease_seconds"),
    "complete": ("fence", "token", "result", "found_done"),
    "fail": ("fence", "token", "error", "retry_after", "final"),
    "release": ("fence", "token"),
    "retry_failed": ("reason", "limit"),
}
"""The parameters that functions have whatever the table is like."""

SEARCH_PATH = numbered("select cast(pg_catalog.current_schemas(false) as text[])", is_prepared=False)
TYPES = numbered(
    "select case when space.nspname = 'pg_catalog' then format_type(known.oid, -1) "
    "else quote_ident(space.nspname) || '.' || quote_ident(known.typname) end "
    "from pg_catalog.pg_prepared_statements prepared, "
    "unnest(prepared.parameter_types) with ordinality as asked (kind, number) "
    "join pg_catalog.pg_type known on known.oid = asked.kind "
    "join pg_catalog.pg_namespace space on space.oid = known.typnamespace "
    "where prepared.name = :name order by asked.number",
    is_prepared=False,
)
