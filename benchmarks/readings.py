"""The numbers of a run: all are stored, and reported as medians."""

import json
from dataclasses import asdict, dataclass, field
from datetime import date
from pathlib import Path
from statistics import median

from benchmarks.machine import Machine

RESULTS = Path(__file__).parent / "results"


@dataclass(slots=True, kw_only=True)
class Readings:
    """The numbers of a contestant in a measurement, by round."""

    contestant: str
    measure: str
    per_second: list[float] = field(default_factory=list)
    shares: list[list[float]] = field(default_factory=list)
    """The share of each process, smallest first, if several took part."""

    def ratio_to(self, other: "Readings") -> float:
        """Return the median of the ratios within each round."""
        return median(self.ratios_to(other))

    def ratios_to(self, other: "Readings") -> list[float]:
        """Return the ratio within each round: a disturbance in a round affects both numbers."""
        return [mine / its for mine, its in zip(self.per_second, other.per_second, strict=True)]


@dataclass(slots=True, kw_only=True)
class Result:
    """The result of a benchmark, as stored."""

    benchmark: str
    machine: Machine

    def kept(self) -> dict[str, object]:
        return asdict(self)

    def save(self, folder: Path = RESULTS) -> Path:
        """Write all numbers. The file does not identify the machine."""
        today = date.today().isoformat()  # noqa: DTZ011 - the local date
        path = folder / f"{self.benchmark}.json"
        path.write_text(json.dumps(_rounded({"date": today, **self.kept()}), indent=1) + "\n")
        return path


@dataclass(slots=True, kw_only=True)
class Run(Result):
    """A benchmark with all its rounds."""

    steal: list[float | None] = field(default_factory=list)
    """The steal time in each round."""
    readings: dict[tuple[str, str], Readings] = field(default_factory=dict)

    def of(self, contestant: str, measure: str) -> Readings:
        """Return the readings of a contestant and a measurement; create them if missing."""
        empty = Readings(contestant=contestant, measure=measure)
        return self.readings.setdefault((contestant, measure), empty)

    def kept(self) -> dict[str, object]:
        readings = [asdict(each) for each in self.readings.values()]
        return {**Result.kept(self), "readings": readings}


def _rounded(value: object) -> object:
    match value:
        case float():
            return round(value, 1 if value > 1 else 4)
        case dict():
            return {name: _rounded(each) for name, each in value.items()}
        case list():
            return [_rounded(each) for each in value]
        case _:
            return value
