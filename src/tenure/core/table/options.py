"""Check the options of a user's table and build its description."""

from collections.abc import Iterable, Mapping
from typing import Any

from tenure.core import checks
from tenure.core.job import GREATEST_ATTEMPTS, State
from tenure.core.table.condition import SqlCondition, parse_condition
from tenure.core.table.spec import (
    LONGEST_IDENTIFIER,
    USER_TABLE_ROLES,
    Columns,
    Order,
    OutputLocation,
    Role,
    StateValue,
    StateWords,
    TableSpec,
    derive_name,
    quote_identifier,
)
from tenure.errors import ConfigurationError


def build_table_spec(
    name: str,
    *,
    schema: str | None = None,
    id: str | Iterable[str] = "id",
    columns: Columns | None = None,
    select: str | Iterable[str] | None = None,
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
    """Build the description of a table; raise `ConfigurationError` for an invalid option."""
    table = check_identifier("a table", name)
    if schema is None and "." in table:
        schema, _, table = table.partition(".")
    key = _check_identifiers("id", id)
    given = _check_params(params)
    location = _parse_output(output)
    has_conditions = where is not None, done_if is not None
    conditions = {
        "where": parse_condition("where", where, given) if has_conditions[0] else None,
        "done_if": parse_condition("done_if", done_if, given)
        if has_conditions[1]
        else _output_exists(location, table, key),
    }
    _reject_unused(given, conditions.values())
    sidecar_name = _sidecar_name(sidecar, table)
    if sidecar_name is not None and where is None:
        raise ConfigurationError("sidecar=True needs where=, which selects the rows to process")
    roles = _check_columns(columns, sidecar_name)
    retry_values = {
        check_identifier("on_retry", column): value for column, value in _check_mapping("on_retry", on_retry).items()
    }
    _reject_conflicts(roles, key, retry_values)
    return TableSpec(
        name=check_identifier("a table", table),
        schema=checks.optional(check_identifier, "schema", schema),
        key=key,
        columns=roles,
        select=None if select is None else _check_identifiers("select", select),
        state_values=_check_states(states, sidecar_name),
        order_by=tuple(_parse_order(each) for each in _split_order(order_by)),
        params=given,
        on_retry=retry_values,
        output=location,
        sidecar_name=sidecar_name,
        max_attempts=None
        if max_attempts is None
        else checks.integer("max_attempts", max_attempts, 1, GREATEST_ATTEMPTS),
        max_crashes=checks.integer("max_crashes", max_crashes, 1, GREATEST_ATTEMPTS),
        where=conditions["where"],
        done_if=conditions["done_if"],
    )


def check_identifier(option: str, value: object) -> str:
    """Check the name of a table or column. Any name of the database is valid, since tenure quotes it."""
    if not isinstance(value, str) or not value or checks.replace_unstorable(value) != value:
        raise ConfigurationError(f"{option} must be the name of a table or column, not {value!r}")
    if len(value.encode()) > LONGEST_IDENTIFIER:
        raise ConfigurationError(
            f"{option} must have at most {LONGEST_IDENTIFIER} bytes, not {checks.short_repr(value)}"
        )
    return str.__str__(value)


def _check_columns(columns: object, sidecar_name: str | None) -> dict[Role, str]:
    options = _check_mapping("columns", columns)
    checks.reject_unknown("columns", options, Columns.__annotations__)
    found = {Role(role): check_identifier(f"columns[{role!r}]", column) for role, column in options.items()}
    for role in found:
        if sidecar_name is not None and role not in USER_TABLE_ROLES:
            raise ConfigurationError(
                f"columns has {role.value!r}, but with sidecar= the sidecar table holds that column; leave it out"
            )
    _reject_duplicates("columns", found)
    return found


def _check_states(states: object, sidecar_name: str | None) -> dict[State, StateValue]:
    options = _check_mapping("states", states)
    checks.reject_unknown("states", options, StateWords.__annotations__)
    if options and sidecar_name is not None:
        raise ConfigurationError("states cannot be used with sidecar=: the sidecar table has its own values")
    by_state: dict[State, object] = {state: options.get(state.value, state.value) for state in State}
    words: dict[State, StateValue] = {}
    for state, word in by_state.items():
        if isinstance(word, bool) or not isinstance(word, str | int) or word == "":
            raise ConfigurationError(f"states[{state.value!r}] must be a text or a whole number, not {word!r}")
        # A plain str or int: a driver may treat an enum member differently.
        words[state] = str.__str__(word) if isinstance(word, str) else int(word)
    kinds = {type(word) is int for word in words.values()}
    if len(kinds) > 1:
        missing = [state.value for state in State if not isinstance(words[state], int)]
        raise ConfigurationError(f"states has numbers, so add a number for {', '.join(missing)} as well")
    _reject_duplicates("states", words)
    return words


def _reject_duplicates(option: str, values: Mapping[Any, Any]) -> None:
    seen: dict[Any, Any] = {}
    for each, value in values.items():
        if value in seen:
            raise ConfigurationError(f"{option} has {value!r} for {seen[value].value!r} and for {each.value!r}")
        seen[value] = each


def _reject_conflicts(roles: Mapping[Role, str], key: tuple[str, ...], on_retry: Iterable[str]) -> None:
    """Reject a column that tenure writes for a role if it is also part of the key or set by `on_retry`."""
    written = {column: role for role, column in roles.items() if role not in USER_TABLE_ROLES}
    for column in key:
        if column in written:
            raise ConfigurationError(
                f"columns has {column!r} for {written[column].value!r}, but it is part of the key; name another column"
            )
    for column in on_retry:
        if column in written:
            raise ConfigurationError(
                f"on_retry has {column!r}, but a retry sets {written[column].value!r} anyway; leave it out"
            )
        if column in key:
            raise ConfigurationError(f"on_retry has {column!r}, which is part of the key; leave it out")


def _parse_order(text: str) -> Order:
    """Parse `column`, `column asc`, `column desc` or `-column`."""
    name, _, direction = text.strip().rpartition(" ")
    if direction.lower() in {"asc", "desc"} and name:
        return Order(check_identifier("order_by", name.strip()), direction.lower() == "desc")
    whole = text.strip()
    is_descending = whole.startswith("-") and len(whole) > 1
    return Order(check_identifier("order_by", whole[1:] if is_descending else whole), is_descending)


def _split_order(order_by: object) -> list[str]:
    if order_by is None:
        return []
    if isinstance(order_by, str):
        return order_by.split(",")
    if isinstance(order_by, bytes | Mapping) or not isinstance(order_by, Iterable):
        raise ConfigurationError(f"order_by must be columns, such as 'created_at', not {checks.short_repr(order_by)}")
    return [check_identifier("order_by", each) for each in order_by]


def _check_identifiers(option: str, value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        return (check_identifier(option, value),)
    if isinstance(value, bytes | Mapping) or not isinstance(value, Iterable):
        raise ConfigurationError(f"{option} must be a column or a list of columns, not {checks.short_repr(value)}")
    found = tuple(dict.fromkeys(check_identifier(option, each) for each in value))
    if not found:
        raise ConfigurationError(f"{option} is empty; name the columns of the key")
    return found


def _parse_output(output: object) -> OutputLocation | None:
    """Parse `invoices.order_id`, with or without a schema, or several columns of one table."""
    if output is None:
        return None
    paths = [each.split(".") for each in _check_identifiers("output", output)]
    tables = {tuple(path[:-1]) for path in paths}
    if len(tables) != 1 or len(paths[0]) not in {2, 3} or any("" in path for path in paths):
        raise ConfigurationError(
            f"output must be a column, such as 'invoices.order_id', or several columns of one table, not {output!r}"
        )
    *schema, table = paths[0][:-1]
    return OutputLocation(schema[0] if schema else None, table, tuple(path[-1] for path in paths))


def _output_exists(output: OutputLocation | None, table: str, key: tuple[str, ...]) -> SqlCondition | None:
    """Return the condition that the output of a row exists, or None if the numbers of columns differ."""
    if output is None or len(output.columns) != len(key):
        return None
    source = (
        quote_identifier(output.table)
        if output.schema is None
        else f"{quote_identifier(output.schema)}.{quote_identifier(output.table)}"
    )
    # An alias equal to the table's name would hide the table.
    alias = "output" if table.lower() != "output" else "found"
    pairs = zip(output.columns, key, strict=True)
    same = " and ".join(
        f"{alias}.{quote_identifier(column)} = {quote_identifier(table)}.{quote_identifier(key_column)}"
        for column, key_column in pairs
    )
    return SqlCondition(f"exists (select 1 from {source} {alias} where {same})", ())  # noqa: S608 - the names are quoted


def _sidecar_name(sidecar: object, table: str) -> str | None:
    if isinstance(sidecar, str):
        return check_identifier("sidecar", sidecar)
    return derive_name("tenure", table) if checks.boolean("sidecar", sidecar) else None


def _check_params(params: object) -> dict[str, Any]:
    given = _check_mapping("params", params)
    for name in given:
        if not isinstance(name, str) or not name.isidentifier() or not name.isascii():
            raise ConfigurationError(f"the names in params must be identifiers, such as 'source', not {name!r}")
    return given


def _reject_unused(params: Mapping[str, Any], conditions: Iterable[SqlCondition | None]) -> None:
    used = {name for each in conditions if each is not None for name in each.names}
    for name in params:
        if name not in used:
            raise ConfigurationError(
                f"params has {name!r}, but neither where nor done_if uses :{name}{checks.did_you_mean(name, used)}"
            )


def _check_mapping(option: str, value: object) -> dict[Any, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ConfigurationError(f"{option} must be a dict, not {checks.short_repr(value)}")
    return dict(value)
