"""The options of a table of the user's own: checked, and made into its description."""

from collections.abc import Iterable, Mapping
from typing import Any

from tenure.core import checks
from tenure.core.job import MOST_ATTEMPTS, State
from tenure.core.table.condition import Fragment, fragment_of
from tenure.core.table.spec import (
    LONGEST_IDENTIFIER,
    READ_BESIDE,
    Columns,
    Order,
    Output,
    Role,
    StateWords,
    TableSpec,
    Word,
    made_name,
    quoted,
)
from tenure.errors import ConfigurationError


def table_spec(
    name: str,
    *,
    schema: str | None = None,
    id: str | Iterable[str] = "id",
    columns: Columns | None = None,
    states: StateWords | None = None,
    order_by: str | Iterable[str] | None = None,
    where: str | None = None,
    params: Mapping[str, Any] | None = None,
    done_if: str | None = None,
    on_retry: Mapping[str, Any] | None = None,
    output: str | Iterable[str] | None = None,
    max_attempts: int | None = 5,
    max_crashes: int = 3,
    sidecar: bool | str = False,
) -> TableSpec:
    """Return a table by its options, or raise for one that cannot be used."""
    table = identifier("a table", name)
    if schema is None and "." in table:
        schema, _, table = table.partition(".")
    key = _identifiers("id", id)
    given = _params(params)
    place = _output(output)
    is_told = where is not None, done_if is not None
    conditions = {
        "where": fragment_of("where", where, given) if is_told[0] else None,
        "done_if": fragment_of("done_if", done_if, given) if is_told[1] else _is_output_there(place, table, key),
    }
    _refuse_unused(given, conditions.values())
    companion = _companion(sidecar, table)
    if companion is not None and where is None:
        raise ConfigurationError("sidecar=True needs where=, which tells the rows that are to be worked on")
    roles = _columns(columns, companion)
    set_again = {identifier("on_retry", column): value for column, value in _mapping("on_retry", on_retry).items()}
    _refuse_written_twice(roles, key, set_again)
    return TableSpec(
        name=identifier("a table", table),
        schema=checks.optional(identifier, "schema", schema),
        key=key,
        columns=roles,
        words=_words(states, companion),
        order_by=tuple(_order(each) for each in _parts(order_by)),
        params=given,
        on_retry=set_again,
        output=place,
        companion=companion,
        max_attempts=None if max_attempts is None else checks.whole("max_attempts", max_attempts, 1, MOST_ATTEMPTS),
        max_crashes=checks.whole("max_crashes", max_crashes, 1, MOST_ATTEMPTS),
        where=conditions["where"],
        done_if=conditions["done_if"],
    )


def identifier(option: str, value: object) -> str:
    """Return the name of a table or column: any that a database can have, since it is always quoted."""
    if not isinstance(value, str) or not value or checks.clean(value) != value:
        raise ConfigurationError(f"{option} must be the name of a table or column, not {value!r}")
    if len(value.encode()) > LONGEST_IDENTIFIER:
        raise ConfigurationError(f"{option} must have at most {LONGEST_IDENTIFIER} bytes, not {checks.shown(value)}")
    return str.__str__(value)


def _columns(columns: object, companion: str | None) -> dict[Role, str]:
    given = _mapping("columns", columns)
    checks.refuse_unknown("columns", given, Columns.__annotations__)
    found = {Role(role): identifier(f"columns[{role!r}]", column) for role, column in given.items()}
    for role in found:
        if companion is not None and role not in READ_BESIDE:
            raise ConfigurationError(
                f"columns has {role.value!r}, which the companion table has when sidecar is set; leave it out"
            )
    _refuse_twice("columns", found)
    return found


def _words(states: object, companion: str | None) -> dict[State, Word]:
    given = _mapping("states", states)
    checks.refuse_unknown("states", given, StateWords.__annotations__)
    if given and companion is not None:
        raise ConfigurationError("states has no meaning when sidecar is set: the companion table has words of its own")
    told: dict[State, object] = {state: given.get(state.value, state.value) for state in State}
    words: dict[State, Word] = {}
    for state, word in told.items():
        if isinstance(word, bool) or not isinstance(word, str | int) or word == "":
            raise ConfigurationError(f"states[{state.value!r}] must be a text or a whole number, not {word!r}")
        # Not a member of an enumeration: a driver may treat that in its own way.
        words[state] = str.__str__(word) if isinstance(word, str) else int(word)
    kinds = {type(word) is int for word in words.values()}
    if len(kinds) > 1:
        missing = [state.value for state in State if not isinstance(words[state], int)]
        raise ConfigurationError(f"states has numbers, so it has to tell one for {', '.join(missing)} as well")
    _refuse_twice("states", words)
    return words


def _refuse_twice(option: str, named: Mapping[Any, Any]) -> None:
    seen: dict[Any, Any] = {}
    for each, value in named.items():
        if value in seen:
            raise ConfigurationError(f"{option} has {value!r} for {seen[value].value!r} and for {each.value!r}")
        seen[value] = each


def _refuse_written_twice(roles: Mapping[Role, str], key: tuple[str, ...], on_retry: Iterable[str]) -> None:
    """Refuse a column that we write as a role if it is part of the key, or to be set by a retry as well."""
    written = {column: role for role, column in roles.items() if role not in READ_BESIDE}
    for column in key:
        if column in written:
            raise ConfigurationError(f"columns has {column!r} for {written[column].value!r}, and it is part of the key")
    for column in on_retry:
        if column in written:
            raise ConfigurationError(
                f"on_retry has {column!r}, which plays {written[column].value!r}: a retry sets it anyway; leave it out"
            )
        if column in key:
            raise ConfigurationError(f"on_retry has {column!r}, which is part of the key; leave it out")


def _order(text: str) -> Order:
    """Return `column`, `column asc`, `column desc` or `-column` as an order."""
    name, _, direction = text.strip().rpartition(" ")
    if direction.lower() in {"asc", "desc"} and name:
        return Order(identifier("order_by", name.strip()), direction.lower() == "desc")
    whole = text.strip()
    is_descending = whole.startswith("-") and len(whole) > 1
    return Order(identifier("order_by", whole[1:] if is_descending else whole), is_descending)


def _parts(order_by: object) -> list[str]:
    if order_by is None:
        return []
    if isinstance(order_by, str):
        return order_by.split(",")
    if isinstance(order_by, bytes | Mapping) or not isinstance(order_by, Iterable):
        raise ConfigurationError(f"order_by must be columns, such as 'created_at', not {checks.shown(order_by)}")
    return [identifier("order_by", each) for each in order_by]


def _identifiers(option: str, value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        return (identifier(option, value),)
    if isinstance(value, bytes | Mapping) or not isinstance(value, Iterable):
        raise ConfigurationError(f"{option} must be a column or several of them, not {checks.shown(value)}")
    found = tuple(dict.fromkeys(identifier(option, each) for each in value))
    if not found:
        raise ConfigurationError(f"{option} is empty; name the columns of the key")
    return found


def _output(output: object) -> Output | None:
    """Return `invoices.order_id`, or the same with a schema, or several columns of one table."""
    if output is None:
        return None
    places = [each.split(".") for each in _identifiers("output", output)]
    tables = {tuple(place[:-1]) for place in places}
    if len(tables) != 1 or len(places[0]) not in {2, 3} or any("" in place for place in places):
        raise ConfigurationError(
            f"output must be a column of a table, such as 'invoices.order_id', or several of one, not {output!r}"
        )
    *schema, table = places[0][:-1]
    return Output(schema[0] if schema else None, table, tuple(place[-1] for place in places))


def _is_output_there(output: Output | None, table: str, key: tuple[str, ...]) -> Fragment | None:
    """Return the condition that the output of a row is there, if its columns are those of the key."""
    if output is None or len(output.columns) != len(key):
        return None
    place = quoted(output.table) if output.schema is None else f"{quoted(output.schema)}.{quoted(output.table)}"
    # Another name than that of the table, which would hide it.
    alias = "output" if table.lower() != "output" else "found"
    pairs = zip(output.columns, key, strict=True)
    same = " and ".join(f"{alias}.{quoted(there)} = {quoted(table)}.{quoted(here)}" for there, here in pairs)
    return Fragment(f"exists (select 1 from {place} {alias} where {same})", ())  # noqa: S608 - the names are quoted


def _companion(sidecar: object, table: str) -> str | None:
    if isinstance(sidecar, str):
        return identifier("sidecar", sidecar)
    return made_name("tenure", table) if checks.truth("sidecar", sidecar) else None


def _params(params: object) -> dict[str, Any]:
    given = _mapping("params", params)
    for name in given:
        if not isinstance(name, str) or not name.isidentifier() or not name.isascii():
            raise ConfigurationError(f"params must be named like variables, such as 'source', not {name!r}")
    return given


def _refuse_unused(params: Mapping[str, Any], fragments: Iterable[Fragment | None]) -> None:
    used = {name for each in fragments if each is not None for name in each.names}
    for name in params:
        if name not in used:
            raise ConfigurationError(
                f"params has {name!r}, which neither where nor done_if names as :{name}{checks.nearest(name, used)}"
            )


def _mapping(option: str, value: object) -> dict[Any, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ConfigurationError(f"{option} must be a dict, not {checks.shown(value)}")
    return dict(value)
