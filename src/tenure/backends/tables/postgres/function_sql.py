"""Build the SQL of the functions of a table from templates and the statements of the operations."""

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from tenure.backends.postgres.errors import INVALID_STATEMENT_CLASSES, OTHER_SERVER_CLASSES, SERVER_ERROR_CLASSES
from tenure.backends.postgres.settings import PLANNER
from tenure.backends.protocol import SWEEP
from tenure.backends.shared.sql_files import raw_statements
from tenure.backends.tables.postgres.admin_connection import AdminConnection
from tenure.backends.tables.postgres.layout import KEY_TYPES, Layout, quote_literal
from tenure.backends.tables.postgres.params import encode
from tenure.backends.tables.postgres.settle import LANDED, PREVENTED
from tenure.backends.tables.postgres.sql_templates import WAITING_FRAGMENTS, SqlTemplates
from tenure.backends.tables.postgres.statements import build_statement
from tenure.backends.tables.row_batches import NO_EFFECT
from tenure.core import checks, operations, payload
from tenure.core.operations import HoldStatus, Move
from tenure.core.table.condition import substitute_values
from tenure.core.table.spec import TableSpec, derive_name, quote_identifier
from tenure.core.transitions import RULES

STATEMENTS = {
    "take": ("claim", "take"),
    "take chosen": ("claim", "take"),
    "due keys": ("claim", "due keys"),
    "reap": ("reap", "expired"),
    "reap chosen": ("reap", "expired"),
    "expired keys": ("reap", "expired keys"),
    "extend": ("extend", "extend"),
    "settle": ("settle", "settle"),
    "retry": ("move", "retry"),
}
"""The statements that functions contain, as operation and statement name."""


class FunctionSql:
    """The `create` statements for the functions of one table. The server infers the types of the user's values."""

    def __init__(self, admin: AdminConnection, layout: Layout) -> None:
        self._admin = admin
        self._layout = layout
        self._templates = SqlTemplates(layout)
        self._types = self._infer_types()

    def statements(self) -> Iterator[tuple[str, str]]:
        """Yield the name of each function, without the name of the table, and its `create` statement."""
        schema, table = self._layout.table.schema, self._layout.table.name
        fragments = {name: _replace_values(each) for name, each in self._templates.fragments.items()}
        shared = {**fragments, **_constant_fragments(self._layout.spec), **self._shared_fragments()}
        for name, template in raw_statements(__package__, "functions").items():
            own = derive_name(name, table)
            more = {
                **self._function_fragments(own, FIXED_PARAMETERS.get(name, ())),
                "function": f"{quote_identifier(schema)}.{quote_identifier(own)}",
            }
            yield name, _quote_body(template.format(**{**shared, **more}))

    def _shared_fragments(self) -> dict[str, Any]:
        layout, statements = self._layout, {}
        chosen = self._templates.choice_fragments("in")
        # Functions return the row in its own types, not as text.
        more_fragments = {
            "texts": "cast(null as json)",
            "lock_due_rows": LOCK_NEXT_ROWS,
            "lock_expired_claims": LOCK_NEXT_ROWS,
            **WAITING_FRAGMENTS,
        }
        for name, (operation, statement) in STATEMENTS.items():
            text = self._templates.text(
                operation, statement, {**more_fragments, **chosen} if name.endswith("chosen") else more_fragments
            )
            statements[name] = _replace_values(text).replace("\n", "\n  ")
        columns = self._returned_columns()
        free = _unused_names({name for name, _ in columns}, ("fence", "token"), "claim")
        returned = [*columns, (free["fence"], "bigint"), (free["token"], "text")]
        attempts = layout.spec.max_attempts
        keys = range(1, len(layout.key) + 1)
        claimed = quote_identifier(derive_name("claimed", layout.table.name))
        return {
            "sql": statements,
            **self._row_parts(statements),
            "claimed": f"{quote_identifier(layout.table.schema)}.{claimed}",
            "returned_columns": ",\n  ".join(f"{quote_identifier(name)} {kind}" for name, kind in returned),
            "row_columns": ", ".join(
                f"cast({layout.outer_alias}.{quote_identifier(name)} as {kind})" for name, kind in columns
            ),
            "function_options": self._function_options(),
            "is_last_attempt": "false" if attempts is None else f"tenure_call.attempts >= {attempts}",
            "constants": self._declarations(self._default_value),
            "retry_variables": "".join(
                f"\n  retry_{n} {column.base} := {_cast_value(f'on_retry[{name!r}]', value, column.base)};"
                for n, (column, (name, value)) in enumerate(
                    zip(layout.on_retry, layout.spec.on_retry.items(), strict=True), start=1
                )
            ),
            "key_array_declarations": "".join(
                f"\n  key_{n} {KEY_TYPES[column.base]}[];" for n, column in enumerate(layout.key, start=1)
            ),
            "key_arrays": ", ".join(
                f"array_agg(cast(found.key_{n} as {KEY_TYPES[column.base]}))"
                for n, column in enumerate(layout.key, start=1)
            ),
            "key_array_variables": ", ".join(f"tenure_call.key_{n}" for n in keys),
        }

    def _row_parts(self, statements: Mapping[str, str]) -> dict[str, str]:
        """Return the blocks that reap and claim rows, and the declarations of their variables."""
        parts = raw_statements(__package__, "function_rows")
        shared = {
            "choose_key": self._choose_key(),
            "check_error": CHECK_ERROR,
            "undo_locks": UNDO_LOCKS,
            "no_effect": NO_EFFECT,
            "sweep": SWEEP,
        }
        return {
            "row_variables": parts["variables"]
            + "".join(
                f";\n  chosen_{n} {KEY_TYPES[column.base]}[]" for n, column in enumerate(self._layout.key, start=1)
            )
            + ";",
            "reap_rows": parts["change"].format(
                **shared,
                action="reaped",
                wanted="tenure_call.reap_limit",
                total="tenure_call.reaped",
                change_rows=statements["reap"],
                list_keys=statements["expired keys"],
                change_chosen=statements["reap chosen"],
                number=NUMBER_REAPED,
                has_ineffective_write="json_array_length(tenure_call.answer) > tenure_call.number",
            ),
            "claim_rows": parts["change"].format(
                **shared,
                action="claimed",
                wanted="tenure_call.wanted",
                total="tenure_call.had",
                change_rows=statements["take"],
                list_keys=statements["due keys"],
                change_chosen=statements["take chosen"],
                number="json_array_length(tenure_call.answer -> 2)",
                has_ineffective_write="json_array_length(tenure_call.answer -> 1) > 0",
            ),
        }

    def _choose_key(self) -> str:
        """Return the assignments that restrict the next statement to the row `tenure_call.key`."""
        return "\n          ".join(
            f"tenure_call.chosen_{n} := array[cast(tenure_call.key ->> {n - 1} as {KEY_TYPES[column.base]})];"
            for n, column in enumerate(self._layout.key, start=1)
        )

    def _function_fragments(self, function_name: str, used_names: Sequence[str]) -> dict[str, str]:
        """Return the fragments that depend on the names of the function and its parameters."""
        layout, function = self._layout, quote_identifier(function_name)
        filters = _unused_names(set(used_names), list(layout.spec.params), "filter")
        names = _unused_names(set(used_names), [each.name for each in layout.key], "key")
        keys = {each: f"{function}.{quote_identifier(names[each.name])}" for each in layout.key}
        return {
            "self": function,
            "filters": "".join(
                f",\n  {quote_identifier(name)} {self._types[each]} default {self._default_value(each)}"
                for each, name in filters.items()
            ),
            "variables": self._declarations(lambda name: f"{function}.{quote_identifier(filters[name])}"),
            "key_parameters": ",\n  ".join(
                f"{quote_identifier(names[each.name])} {KEY_TYPES[each.base]}" for each in layout.key
            ),
            "key_texts": ", ".join(f"cast({name} as text)" for name in keys.values()),
            "job_has_key": " and ".join(f"job.{quote_identifier(each.name)} = {name}" for each, name in keys.items()),
        }

    def _declarations(self, value_of: Callable[[str], str]) -> str:
        """Return the declarations of the variables for the values in conditions."""
        return "".join(f'\n  "param_{name}" {kind} := {value_of(name)};' for name, kind in self._types.items())

    def _default_value(self, name: str) -> str:
        return _cast_value(f"params[{name!r}]", self._layout.spec.params[name], self._types[name])

    def _returned_columns(self) -> list[tuple[str, str]]:
        """Return the user's columns with their types, and the visible columns that `migrate` adds."""
        added = [part for part in self._layout.missing if not self._layout.is_added(part.role)]
        return [
            *((each.name, each.base) for each in self._layout.columns),
            *((part.name, self._layout.definition(part.role).split()[0]) for part in added),
        ]

    def _function_options(self) -> str:
        ((path,),) = self._admin.fetch(SEARCH_PATH)
        settings = {
            "search_path": ", ".join([*(quote_identifier(each) for each in path), "pg_temp"]),
            "standard_conforming_strings": "on",
            **PLANNER,
        }
        return "\n".join(
            ["language plpgsql", "security invoker", *(f"set {name} = {value}" for name, value in settings.items())]
        )

    def _infer_types(self) -> dict[str, str]:
        """Return the type of each value in the conditions, as the server infers it from the context."""
        spec = self._layout.spec
        conditions = [each.render("param") for each in (spec.where, spec.done_if) if each is not None]
        if not spec.params:
            return {}
        select_list = ", ".join(f"({each})" for each in conditions)
        statement = build_statement(
            f"select {select_list} from {self._layout.table.quoted_name} {self._layout.alias}",  # noqa: S608
            is_prepared=False,
        )
        name = f"tenure_{secrets.token_hex(12)}"
        self._admin.execute(f"prepare {name} as {statement.text.decode()}")
        rows = self._admin.fetch(PARAMETER_TYPES, {"name": name})
        self._admin.execute(f"deallocate {name}")
        return {name.removeprefix("param_"): kind for name, (kind,) in zip(statement.names, rows, strict=True)}


def _replace_values(text: Any) -> Any:
    """Replace each value by a variable. `now` is always null: functions use the clock of the server."""
    if not isinstance(text, str):
        return text
    return substitute_values(text, lambda name: "null" if name == "now" else f'tenure_call."{name}"')


def _unused_names(used_names: set[str], names: Sequence[str], prefix: str) -> dict[str, str]:
    """Return an unused name for each name: add the prefix until it is free."""
    found: dict[str, str] = {}
    for name in names:
        free = name
        while free in used_names:
            free = f"{prefix}_{free}"
        found[name] = free
    return found


def _cast_value(option: str, value: object, kind: str) -> str:
    text = encode(option, value)
    return f"cast({'null' if text is None else quote_literal(text)} as {kind})"


def _quote_body(text: str) -> str:
    """Quote the body with a dollar tag that the body does not contain."""
    tag = "$tenure$"
    while tag in text:
        tag = f"{tag[:-1]}_$"
    return text.replace(BODY_QUOTE, tag)


def _constant_fragments(spec: TableSpec) -> dict[str, Any]:
    backoff = spec.backoff
    rules = {
        f"{outcome}_rule": SimpleNamespace(
            outcome=outcome, state=rule.state, when_exhausted=rule.when_exhausted, attempts=rule.attempts
        )
        for outcome, rule in RULES.items()
    }
    return {
        **rules,
        "quote": BODY_QUOTE,
        "raise_invalid": "raise exception using errcode = 'invalid_parameter_value', message =",
        "raise_rejection": RAISE_REJECTION,
        "check_snapshot": CHECK_SNAPSHOT,
        "check_lease": CHECK_LEASE.format(shortest=operations.SHORTEST_LEASE, longest=operations.LONGEST_LEASE),
        "lease": f"{spec.lease:.15g}",
        "sweep": SWEEP,
        "largest_batch": operations.LARGEST_BATCH,
        "name_form": f"^[^[:cntrl:]]{{1,{checks.LONGEST_NAME}}}$",
        "longest_name": checks.LONGEST_NAME,
        "longest_result": payload.MAX_JSON_BYTES,
        "longest_error": checks.LONGEST_ERROR,
        "longest_delay": f"{checks.LONGEST_DELAY:.0f}",
        "cut": quote_literal(checks.TRUNCATION_MARK),
        # A character has up to four bytes.
        "error_kept": (checks.LONGEST_ERROR - len(checks.TRUNCATION_MARK.encode())) // 4,
        "prevented": PREVENTED,
        "lost": HoldStatus.LOST,
        "landed": LANDED,
        "retry": Move.RETRY,
        "backoff_first": f"{backoff.first:.15g}",
        "backoff_factor": f"{backoff.factor:.15g}",
        "backoff_cap": f"{backoff.cap:.15g}",
    }


BODY_QUOTE = "\0"
"""Placeholder for the quotes of a function body until the body is complete; user SQL cannot contain it."""

LOCK_NEXT_ROWS = "\n  offset :missed\n  for no key update skip locked"
"""Lists the next rows that no other transaction has locked."""

UNDO_LOCKS = "TENUR"
"""The SQLSTATE of an exception that releases the locks of the listed rows; the caller's transaction would keep them."""

NUMBER_REAPED = (
    "(select count(*) from json_array_elements(tenure_call.answer) as row (claim) "
    "where cast(row.claim ->> 4 as boolean))"
)

CHECK_ERROR = f"""\
if sqlstate ~ '^({"|".join(SERVER_ERROR_CLASSES)})' and sqlstate !~ '^({"|".join(OTHER_SERVER_CLASSES)})' then
      raise;
    elsif sqlstate ~ '^({"|".join((*INVALID_STATEMENT_CLASSES, *OTHER_SERVER_CLASSES))})' then
      tenure_call.rejection := coalesce(tenure_call.rejection, array[sqlstate, sqlerrm]);
    end if;"""
"""Raise an error that concerns the server. Keep the first error that may concern all rows."""

RAISE_REJECTION = "raise exception using errcode = tenure_call.rejection[1], message = tenure_call.rejection[2];"

CHECK_LEASE = """\
if tenure_call.lease_seconds is null or tenure_call.lease_seconds not between {shortest:g} and {longest:g} then
    raise exception using
      errcode = 'invalid_parameter_value',
      message = format('lease_seconds must be {shortest:g} to {longest:g}, not %s', tenure_call.lease_seconds);
  end if;
  tenure_call.lease := cast(1000000 * tenure_call.lease_seconds as bigint);"""

CHECK_SNAPSHOT = """\
if not tenure_call.landed and tenure_call.answer ->> 1 <> 'read committed' then
    raise exception using
      errcode = 'invalid_transaction_state',
      message = 'cannot check whether the claim is lost: the snapshot of this transaction may be older than the claim',
      hint = 'use a read committed transaction';
  end if;"""

FIXED_PARAMETERS = {
    "claim": ("limit", "lease_seconds", "worker", "token"),
    "extend": ("fence", "token", "lease_seconds"),
    "complete": ("fence", "token", "result", "found_done"),
    "fail": ("fence", "token", "error", "retry_after", "final"),
    "release": ("fence", "token"),
    "retry_failed": ("reason", "limit"),
}
"""The parameters of each function that do not depend on the table."""

SEARCH_PATH = build_statement("select cast(pg_catalog.current_schemas(false) as text[])", is_prepared=False)
PARAMETER_TYPES = build_statement(
    "select case when space.nspname = 'pg_catalog' then format_type(known.oid, -1) "
    "else quote_ident(space.nspname) || '.' || quote_ident(known.typname) end "
    "from pg_catalog.pg_prepared_statements prepared, "
    "unnest(prepared.parameter_types) with ordinality as parameter (kind, number) "
    "join pg_catalog.pg_type known on known.oid = parameter.kind "
    "join pg_catalog.pg_namespace space on space.oid = known.typnamespace "
    "where prepared.name = :name order by parameter.number",
    is_prepared=False,
)
