"""The cells of a report: the median, and below the median the smallest and the greatest number."""

from statistics import median

from benchmarks.readings import Readings
from benchmarks.report import short


def spread(readings: Readings) -> str:
    numbers = readings.per_second
    return f"{short(median(numbers))}\n[dim]{short(min(numbers))}–{short(max(numbers))}[/dim]"


def ratio(readings: Readings, other: Readings | None) -> str:
    """Return the ratio of two readings within the same rounds."""
    if other is None or other is readings:
        return "–"
    ratios = readings.ratios_to(other)
    return f"×{median(ratios):.2f}\n[dim]{min(ratios):.2f}–{max(ratios):.2f}[/dim]"
