"""The numbers of a run: kept whole, shown as medians."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import date
from pathlib import Path
from statistics import median

from benchmarks.machine import Machine

RESULTS = Path(__file__).parent / "results"


@dataclass(slots=True, kw_only=True)
class Readings:
    """One contestant in one measure: a number for each round, in their order."""

    contestant: str
    measure: str
    per_second: list[float] = field(default_factory=list)
    shares: list[list[float]] = field(default_factory=list)
    """Of each process, smallest first, where several took part."""

    def ratio_to(self, other: "Readings") -> float:
        """Return the median of the ratios within each round: what disturbs a round disturbs both."""
        return median(mine / its for mine, its in zip(self.per_second, other.per_second, strict=True))


@dataclass(slots=True, kw_only=True)
class Run:
    """A benchmark from its first round to its last."""

    benchmark: str
    machine: Machine
    seconds: float
    steal: list[float | None] = field(default_factory=list)
    """The share in each round."""
    readings: dict[tuple[str, str], Readings] = field(default_factory=dict)

    def of(self, contestant: str, measure: str) -> Readings:
        """Return the readings to look at or to add to."""
        empty = Readings(contestant=contestant, measure=measure)
        return self.readings.setdefault((contestant, measure), empty)

    def save(self, folder: Path = RESULTS) -> Path:
        """Write every number, and nothing that tells whose machine it was."""
        kept: Mapping[str, object] = {
            "benchmark": self.benchmark,
            "date": date.today().isoformat(),  # noqa: DTZ011 - the day where it was run
            "machine": asdict(self.machine),
            "seconds": self.seconds,
            "steal": self.steal,
            "readings": [asdict(each) for each in self.readings.values()],
        }
        path = folder / f"{self.benchmark}.json"
        path.write_text(json.dumps(_rounded(kept), indent=1) + "\n")
        return path


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
