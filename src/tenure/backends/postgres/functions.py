"""Generate the SQL functions of a store, for clients in other languages.

A template in `functions/` names the statements of the Python operations, and the values of a statement become PL/pgSQL
variables. Functions and operations therefore run the same SQL.
"""

import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from functools import cache
from importlib.resources import files
from typing import Any, get_args

from tenure.backends.postgres.claim_scan import EXTRA_SCAN, SCAN_GROWTH
from tenure.backends.postgres.conflict_retry import MOST_DECISIONS
from tenure.backends.postgres.encoding import microseconds
from tenure.backends.postgres.settings import PLANNER
from tenure.backends.postgres.statements import ALL, NAMED_VALUE, OF_QUEUES, OF_QUEUES_AND_TYPES, quote_name, sql_in
from tenure.backends.protocol import SWEEP
from tenure.core import checks, job, operations, payload
from tenure.core.backoff import Backoff
from tenure.core.job import NewJob, OnConflict, Outcome
from tenure.core.operations import ClaimRequest, HoldStatus
from tenure.core.transitions import RULES

TEMPLATES = ("checks", "store", "enqueue", "claim", "extend", "settle", "reap")

VERSION_SUFFIX = "_v1"
"""Suffix of the public functions. A version never changes; a different behaviour gets a new suffix."""
FUNCTION_HEAD = re.compile(rf"create or replace function \S+\.(\w+?)({VERSION_SUFFIX})?\(([^()]*)\)\nreturns (.*)\n")

TEMPLATE_FORMS = {"sql": ALL, "of_queues": OF_QUEUES, "of_queues_and_types": OF_QUEUES_AND_TYPES}

SEARCH_PATH = "pg_catalog, pg_temp"
AS_OWNER = "\n".join(
    [
        "language plpgsql",
        "security definer",
        *(
            f"set {name} = {value}"
            for name, value in {"search_path": SEARCH_PATH, "standard_conforming_strings": "on", **PLANNER}.items()
        ),
    ]
)
"""Run with the rights of the owner, and independently of the settings of the caller's session."""

CONFLICT_SQLSTATE = "TN001"
"""Internal SQLSTATE for a write conflict; no function lets it escape."""

CLAIM_FIELDS = ("id", "fence", "token", "outcome")
OUTCOME_FIELDS: Mapping[Outcome, Sequence[str]] = {
    Outcome.COMPLETED: ("result", "result_dropped"),
    Outcome.FAILED: ("error", "delay", "final"),
    Outcome.RETRIED: ("error", "delay"),
    Outcome.SNOOZED: ("delay",),
    Outcome.RELEASED: (),
    Outcome.CANCELLED: ("error",),
}
"""The fields of a settlement by its outcome, beyond those that identify the claim."""

CONTROL_CHARACTERS = r"\u0001-\u001f\u007f"
INVISIBLE_CHARACTERS = (
    r"\u0080-\u00a0\u00ad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u1680\u180e\u2000-\u200f\u2028-\u202f"
    r"\u205f-\u206f\u3000\ue000-\uf8ff\ufeff\ufff9-\ufffb\U000110bd\U000110cd\U00013430-\U0001343f"
    r"\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0001\U000e0020-\U000e007f\U000f0000-\U0010ffff"
)
"""Characters not allowed in names: those that `str.isprintable` rejects, except code points not yet assigned."""


def script(schema: str) -> str:
    """Return the SQL that creates or replaces all functions of a schema. It grants no rights to call them."""
    named = {"schema": quote_name(schema), **_constants(), **_statements(schema)}
    functions = [_template(name).strip().format(**named) for name in TEMPLATES]
    wrappers = [wrapper for text in functions for wrapper in _unversioned_wrappers(schema, text)]
    # `create or replace` keeps the owner of an existing function: a role that had created it could change it again.
    ownership = [
        f"alter function {quote_name(schema)}.{name}{version} owner to current_user;\n"
        f"revoke all on function {quote_name(schema)}.{name}{version} from public;"
        for text in (*functions, *wrappers)
        for name, version, *_ in FUNCTION_HEAD.findall(text)
    ]
    return "\n\n".join(["-- The functions of a store.", *functions, *wrappers, "\n".join(ownership)]) + "\n"


def public_names() -> list[str]:
    """Return the names of the public functions, without version suffix."""
    return [name for each in TEMPLATES for name, version, *_ in FUNCTION_HEAD.findall(_template(each)) if version]


def _unversioned_wrappers(schema: str, text: str) -> list[str]:
    """Return wrappers without version suffix, for interactive use."""
    wrappers = list[str]()
    for name, version, parameters, result in FUNCTION_HEAD.findall(text):
        if version:
            values = ", ".join(line.split()[0] for line in parameters.split("\n") if line.strip())
            call = f"{quote_name(schema)}.{name}{version}({values})"
            wrappers.append(
                _template("unversioned")
                .strip()
                .format(
                    schema=quote_name(schema),
                    name=name,
                    parameters=parameters,
                    result=result,
                    search_path=SEARCH_PATH,
                    call=f"* from {call}" if result.startswith(("table", "setof")) else call,
                )
            )
    return wrappers


def _template(name: str) -> str:
    return files(__package__).joinpath("functions", f"{name}.sql").read_text("utf-8")


def _statements(schema: str) -> dict[str, Mapping[str, Mapping[str, str]]]:
    """Return the statements of all operations by request form; the value `:name` becomes the variable `given_name`."""
    return {
        fragment: {
            operation: {name: _replace_values(text) for name, text in texts.items()}
            for operation, texts in sql_in(schema, form).items()
        }
        for fragment, form in TEMPLATE_FORMS.items()
    }


def _replace_values(text: str) -> str:
    # Functions always use the server's clock.
    variables = NAMED_VALUE.sub(lambda found: "null" if found[1] == "now" else f"given_{found[1]}", text)
    return variables.replace("\n", "\n  ")


@cache
def _constants() -> Mapping[str, str]:
    """Return the constants of the templates, as SQL."""
    options = _defaults(NewJob)
    defaults = {name: options[name] for name in ("queue", "priority", "on_conflict", "max_attempts", "max_crashes")}
    backoff = Backoff()
    constants = {
        **defaults,
        "as_owner": AS_OWNER,
        "longest_shown": checks.LONGEST_REPR,
        "longest_name": checks.LONGEST_NAME,
        "longest_meta": checks.LONGEST_META,
        "longest_error": checks.LONGEST_ERROR,
        "longest_delay": _format_number(checks.LONGEST_DELAY),
        "cut": f"'{checks.TRUNCATION_MARK}'",
        "control_characters": CONTROL_CHARACTERS,
        "invisible_characters": INVISIBLE_CHARACTERS,
        "greatest_number": _format_number(checks.GREATEST_NUMBER),
        "greatest_double": repr(sys.float_info.max),
        "greatest_fence": 2**63 - 1,
        "earliest": f"{checks.EARLIEST:%Y-%m-%dT%H:%M:%SZ}",
        "latest": f"{checks.LATEST:%Y-%m-%dT%H:%M:%SZ}",
        "longest_payload": payload.MAX_JSON_BYTES,
        "deepest": payload.MAX_DEPTH,
        "too_deep": payload.MAX_DEPTH + 1,
        "smallest_priority": job.SMALLEST_PRIORITY,
        "greatest_priority": job.GREATEST_PRIORITY,
        "most_attempts": job.GREATEST_ATTEMPTS,
        "shortest_timeout": _format_number(job.SHORTEST_TIMEOUT),
        "longest_timeout": _format_number(job.LONGEST_TIMEOUT),
        "job_fields": _format_array(options),
        "job_defaults": json.dumps(defaults),
        "optional_fields": _format_array([*(name for name, default in options.items() if default is None), "meta"]),
        "on_conflict_choices": _format_array(get_args(OnConflict)),
        "most_enqueued": operations.LARGEST_ENQUEUE,
        "largest_batch": operations.LARGEST_BATCH,
        "most_rounds": MOST_DECISIONS,
        "conflict": CONFLICT_SQLSTATE,
        "lease": _format_number(_defaults(ClaimRequest)["lease"]),
        "shortest_lease": _format_number(operations.SHORTEST_LEASE),
        "longest_lease": _format_number(operations.LONGEST_LEASE),
        "held": HoldStatus.HELD,
        "lost": HoldStatus.LOST,
        "cancel_requested": HoldStatus.CANCEL_REQUESTED,
        "outcomes": _format_array(OUTCOME_FIELDS),
        "settlement_fields": json.dumps({outcome: [*CLAIM_FIELDS, *more] for outcome, more in OUTCOME_FIELDS.items()}),
        "rules": _transition_rows(),
        "backoff_first": _format_number(backoff.first),
        "backoff_factor": _format_number(backoff.factor),
        "backoff_cap": _format_number(backoff.cap),
        "extra_scan": EXTRA_SCAN,
        "scan_growth": SCAN_GROWTH,
        "sweep": SWEEP,
        "evidence_kept": microseconds(operations.SILENT_WORKER_TTL),
    }
    return {name: str(value) for name, value in constants.items()}


def _defaults(kind: type[NewJob | ClaimRequest]) -> dict[str, Any]:
    return {each.name: each.default for each in fields(kind)}


def _transition_rows() -> str:
    """Return the rules of `core.transitions` for every outcome except completion, as SQL rows."""
    rows = [
        (outcome, rule.state, rule.when_exhausted, rule.attempts)
        for outcome, rule in RULES.items()
        if outcome in OUTCOME_FIELDS and outcome is not Outcome.COMPLETED
    ]
    return ", ".join(
        f"('{outcome}', '{state}', {_quote_literal(spent)}, {attempts})" for outcome, state, spent, attempts in rows
    )


def _quote_literal(word: str | None) -> str:
    return "null" if word is None else f"'{word}'"


def _format_array(words: Iterable[str]) -> str:
    return "{" + ", ".join(words) + "}"


def _format_number(value: float) -> str:
    return f"{value:.15g}"
