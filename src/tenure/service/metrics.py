"""The numbers of a service, as Prometheus reads them: text exposition format 0.0.4.

Counts never fall as long as the service runs: what ended workers did stays in them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields

from tenure.service.status import Condition
from tenure.worker.summary import Summary

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One name, and its value for each value of its label, if it has one."""

    name: str
    help: str
    type: str = "gauge"
    label: str | None = None
    values: Mapping[str, float] = field(hash=False)


def exposition(condition: Condition, version: str) -> str:
    """Return the numbers as text."""
    return "".join(_lines_of(metric) for metric in metrics_of(condition, version))


def metrics_of(condition: Condition, version: str) -> list[Metric]:
    workers = condition.workers
    summaries = [condition.ended, *(worker.summary for worker in workers)]
    runs = {each.name: sum(getattr(summary, each.name) for summary in summaries) for each in fields(Summary)}
    prevented = runs.pop("prevented")
    return [
        Metric(name="tenure_info", help="The version of tenure.", label="version", values={version: 1}),
        Metric(
            name="tenure_runs_total",
            help="Runs of jobs that ended, by how they ended.",
            type="counter",
            label="outcome",
            values=runs,
        ),
        _plain(
            "tenure_prevented_total",
            "Completed rows of tables whose work was done already.",
            prevented,
            type="counter",
        ),
        _plain("tenure_running", "Jobs whose handler runs.", sum(worker.running for worker in workers)),
        _plain("tenure_waiting", "Jobs that are held and wait for a slot.", sum(worker.waiting for worker in workers)),
        _plain("tenure_workers", "Workers that are there.", len(workers)),
        _plain("tenure_workers_wanted", "Workers that should be there.", condition.wanted),
        _plain(
            "tenure_worker_deaths_total",
            "Worker processes that ended and were not to.",
            condition.deaths,
            type="counter",
        ),
        _plain(
            "tenure_store_failing",
            "Whether the store does not answer some worker.",
            any(worker.is_store_failing for worker in workers),
        ),
        _plain(
            "tenure_quiet_seconds",
            "For how long the event loop or the claims of a worker have stood still, of the one that is worst.",
            max((worker.quiet_for for worker in workers), default=0.0),
        ),
    ]


def _plain(name: str, help: str, value: float, *, type: str = "gauge") -> Metric:
    return Metric(name=name, help=help, type=type, values={"": value})


def _lines_of(metric: Metric) -> str:
    lines = [f"# HELP {metric.name} {_escaped(metric.help)}", f"# TYPE {metric.name} {metric.type}"]
    for value, number in metric.values.items():
        quoted = _escaped(value).replace('"', r"\"")
        label = "" if metric.label is None else f'{{{metric.label}="{quoted}"}}'
        lines.append(f"{metric.name}{label} {_number(number)}")
    return "".join(f"{line}\n" for line in lines)


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n")


def _number(number: float) -> str:
    return str(int(number)) if float(number).is_integer() else f"{number:.3f}"
