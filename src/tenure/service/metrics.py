"""The metrics of a service in the Prometheus text exposition format 0.0.4.

Counters never decrease while the service runs: they include the workers that have ended.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields

from tenure.service.status import ServiceStatus
from tenure.worker.summary import Summary

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """A metric with a value for each label value, or a single value without a label."""

    name: str
    help: str
    type: str = "gauge"
    label: str | None = None
    values: Mapping[str, float] = field(hash=False)


def exposition(status: ServiceStatus, version: str) -> str:
    """Return the metrics as text."""
    return "".join(_format_metric(metric) for metric in metrics_of(status, version))


def metrics_of(status: ServiceStatus, version: str) -> list[Metric]:
    workers = status.workers
    summaries = [status.ended_summary, *(worker.summary for worker in workers)]
    runs = {each.name: sum(getattr(summary, each.name) for summary in summaries) for each in fields(Summary)}
    prevented = runs.pop("prevented")
    return [
        Metric(name="tenure_info", help="The version of tenure.", label="version", values={version: 1}),
        Metric(
            name="tenure_runs_total",
            help="Ended runs of jobs, by outcome.",
            type="counter",
            label="outcome",
            values=runs,
        ),
        _unlabelled(
            "tenure_prevented_total",
            "Completed table rows whose work was already done.",
            prevented,
            type="counter",
        ),
        _unlabelled("tenure_running", "Jobs with a running handler.", sum(worker.running for worker in workers)),
        _unlabelled("tenure_waiting", "Jobs claimed and not started.", sum(worker.buffered for worker in workers)),
        _unlabelled("tenure_workers", "Running workers.", len(workers)),
        _unlabelled("tenure_workers_wanted", "Configured number of workers.", status.wanted),
        _unlabelled(
            "tenure_worker_deaths_total",
            "Worker processes that exited unexpectedly.",
            status.deaths,
            type="counter",
        ),
        _unlabelled(
            "tenure_store_failing",
            "1 if a worker cannot reach its store.",
            any(worker.is_store_failing for worker in workers),
        ),
        _unlabelled(
            "tenure_quiet_seconds",
            "Longest time for which the event loop or the claimer of a worker has been blocked.",
            max((worker.blocked_for for worker in workers), default=0.0),
        ),
    ]


def _unlabelled(name: str, help: str, value: float, *, type: str = "gauge") -> Metric:
    return Metric(name=name, help=help, type=type, values={"": value})


def _format_metric(metric: Metric) -> str:
    lines = [f"# HELP {metric.name} {_escape(metric.help)}", f"# TYPE {metric.name} {metric.type}"]
    for value, number in metric.values.items():
        quoted = _escape(value).replace('"', r"\"")
        label = "" if metric.label is None else f'{{{metric.label}="{quoted}"}}'
        lines.append(f"{metric.name}{label} {_format_number(number)}")
    return "".join(f"{line}\n" for line in lines)


def _escape(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n")


def _format_number(number: float) -> str:
    return str(int(number)) if float(number).is_integer() else f"{number:.3f}"
