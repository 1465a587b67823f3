"""The rows of a table as handlers see them: mappings with attributes, or a dataclass of the user."""

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from typing import Any, Generic, NoReturn, TypeVar, cast

from tenure.core import checks
from tenure.errors import ConfigurationError

R = TypeVar("R")


class Row(Mapping[str, Any]):
    """A row as of its claim: `row["total"]` or `row.total`. Read-only.

    Read a column whose name is also a method, such as `keys`, as `row["keys"]`.
    """

    __slots__ = ("_values",)

    _values: dict[str, Any]

    def __init__(self, values: Mapping[str, Any]) -> None:
        object.__setattr__(self, "_values", dict(values))

    def __getitem__(self, column: str) -> Any:
        return self._values[column]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __getattr__(self, name: str) -> Any:
        try:
            return self._values[name]
        except KeyError:
            raise AttributeError(f"the row has no column {name!r}{checks.did_you_mean(name, self._values)}") from None

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"cannot set {name!r}: a row is read-only; update the table instead")

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._values]

    def __repr__(self) -> str:
        return f"Row({self._values!r})"

    def __reduce__(self) -> tuple[object, ...]:
        return Row, (self._values,)


@dataclass(frozen=True, slots=True)
class RowFactory(Generic[R]):
    """Builds the rows of a table: a `Row`, or the user's dataclass."""

    kind: type[R]
    table: str

    def build(self, columns: Mapping[str, Any]) -> R:
        """Build a row. Raises what the dataclass raises for these values."""
        if self.kind is Row:
            return cast("R", Row(columns))
        names = (each.name for each in fields(cast("Any", self.kind)) if each.init)
        return self.kind(**{name: columns[name] for name in names if name in columns})

    def require_fields(self, columns: Mapping[str, Any]) -> None:
        """Raise if the dataclass has a required field without a column."""
        if self.kind is Row:
            return
        for each in fields(cast("Any", self.kind)):
            is_needed = each.init and each.default is MISSING and each.default_factory is MISSING
            if is_needed and each.name not in columns:
                raise ConfigurationError(
                    f"field {each.name!r} of {self.kind.__name__} is not a column of table {self.table!r}: "
                    f"give the field a default or remove it{checks.did_you_mean(each.name, columns)}"
                )


def row_factory_for(row: object, table: str) -> RowFactory[Any]:
    """Return the row factory for a dataclass, or for None; raise for any other value."""
    if row is None:
        return RowFactory(Row, table)
    if not isinstance(row, type) or not (row is Row or is_dataclass(row)):
        raise ConfigurationError(f"row must be a dataclass, not {checks.short_repr(row)}")
    return RowFactory(row, table)
