"""The functions of a store, for everybody who is no Python program: what they are made of, and how they come to be.

Their statements on the tables are those that the operations run: a template in `functions/` names them, and the values
that they name become variables. So the two cannot drift apart.
"""

import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from functools import cache
from importlib.resources import files
from typing import Any, get_args

from tenure.backends.postgres.claim_scan import FURTHER, SPARE
from tenure.backends.postgres.conflict_retry import MOST_ROUNDS
from tenure.backends.postgres.encoding import duration
from tenure.backends.postgres.settings import PLANNER
from tenure.backends.postgres.statements import ALL, OF_QUEUES, OF_QUEUES_AND_TYPES, VALUE, quoted, texts_in
from tenure.backends.protocol import SWEEP
from tenure.core import checks, job, operations, payload
from tenure.core.backoff import Backoff
from tenure.core.job import NewJob, OnConflict, Outcome
from tenure.core.operations import ClaimRequest, Holding
from tenure.core.transitions import RULES

FILES = ("checks", "store", "enqueue", "claim", "extend", "settle", "reap")

VERSION = "_v1"
"""How a function ends that others may call; it stays as it is, and what differs gets another ending."""
HEAD = re.compile(rf"create or replace function \S+\.(\w+?)({VERSION})?\(([^()]*)\)\nreturns (.*)\n")

WAYS = {"sql": ALL, "of_queues": OF_QUEUES, "of_queues_and_types": OF_QUEUES_AND_TYPES}

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
"""It has the rights of whoever made it, and does the same whatever the session of the caller is set to."""

SOMEBODY_ELSE_WAS_FIRST = "TN001"
"""An error of our own, which never leaves a function."""

SHOWN = ("id", "fence", "token", "outcome")
FIELDS: Mapping[Outcome, Sequence[str]] = {
    Outcome.COMPLETED: ("result", "result_dropped"),
    Outcome.FAILED: ("error", "delay", "final"),
    Outcome.RETRIED: ("error", "delay"),
    Outcome.SNOOZED: ("delay",),
    Outcome.RELEASED: (),
    Outcome.CANCELLED: ("error",),
}
"""What a settlement says beside who holds what, by its outcome."""

CONTROL = r"\u0001-\u001f\u007f"
INVISIBLE = (
    r"\u0080-\u00a0\u00ad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u1680\u180e\u2000-\u200f\u2028-\u202f"
    r"\u205f-\u206f\u3000\ue000-\uf8ff\ufeff\ufff9-\ufffb\U000110bd\U000110cd\U00013430-\U0001343f"
    r"\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0001\U000e0020-\U000e007f\U000f0000-\U0010ffff"
)
"""Characters of which no name is made: what `str.isprintable` refuses, but for those that Unicode may yet assign."""


def script(schema: str) -> str:
    """Return what makes all functions in a schema, or makes them anew. Who may call them is for others to say."""
    named = {"schema": quoted(schema), **_constants(), **_statements(schema)}
    made = [_template(name).strip().format(**named) for name in FILES]
    called = [plain for text in made for plain in _plain_names(schema, text)]
    # To replace a function that somebody else has put there would leave it theirs, to be changed again.
    closed = [
        f"alter function {quoted(schema)}.{name}{version} owner to current_user;\n"
        f"revoke all on function {quoted(schema)}.{name}{version} from public;"
        for text in (*made, *called)
        for name, version, *_ in HEAD.findall(text)
    ]
    return "\n\n".join(["-- The functions of a store.", *made, *called, "\n".join(closed)]) + "\n"


def names() -> list[str]:
    """Return the functions that others may call, without their versions."""
    return [name for each in FILES for name, version, *_ in HEAD.findall(_template(each)) if version]


def _plain_names(schema: str, text: str) -> list[str]:
    """Return the same functions without their versions, for people who type."""
    plain = list[str]()
    for name, version, parameters, result in HEAD.findall(text):
        if version:
            values = ", ".join(line.split()[0] for line in parameters.split("\n") if line.strip())
            call = f"{quoted(schema)}.{name}{version}({values})"
            plain.append(
                _template("plain")
                .strip()
                .format(
                    schema=quoted(schema),
                    name=name,
                    parameters=parameters,
                    result=result,
                    search_path=SEARCH_PATH,
                    call=f"* from {call}" if result.startswith(("table", "setof")) else call,
                )
            )
    return plain


def _template(name: str) -> str:
    return files(__package__).joinpath("functions", f"{name}.sql").read_text("utf-8")


def _statements(schema: str) -> dict[str, Mapping[str, Mapping[str, str]]]:
    """Return the statements of all operations, by the ways of asking; `:so` is then the variable `given_so`."""
    return {
        way: {
            operation: {name: _with_variables(text) for name, text in texts.items()}
            for operation, texts in texts_in(schema, asking).items()
        }
        for way, asking in WAYS.items()
    }


def _with_variables(text: str) -> str:
    # The moment is never given: it is the server's.
    variables = VALUE.sub(lambda found: "null" if found[1] == "now" else f"given_{found[1]}", text)
    return variables.replace("\n", "\n  ")


@cache
def _constants() -> Mapping[str, str]:
    """Return what the templates name, as it stands in SQL."""
    options = _defaults(NewJob)
    defaults = {name: options[name] for name in ("queue", "priority", "on_conflict", "max_attempts", "max_crashes")}
    backoff = Backoff()
    constants = {
        **defaults,
        "as_owner": AS_OWNER,
        "longest_shown": checks.LONGEST_SHOWN,
        "longest_name": checks.LONGEST_NAME,
        "longest_meta": checks.LONGEST_META,
        "longest_error": checks.LONGEST_ERROR,
        "longest_delay": _number(checks.LONGEST_DELAY),
        "cut": f"'{checks.CUT}'",
        "control_characters": CONTROL,
        "invisible_characters": INVISIBLE,
        "greatest_number": _number(checks.GREATEST_NUMBER),
        "greatest_double": repr(sys.float_info.max),
        "greatest_fence": 2**63 - 1,
        "earliest": f"{checks.EARLIEST:%Y-%m-%dT%H:%M:%SZ}",
        "latest": f"{checks.LATEST:%Y-%m-%dT%H:%M:%SZ}",
        "longest_payload": payload.LONGEST,
        "deepest": payload.DEEPEST,
        "too_deep": payload.DEEPEST + 1,
        "smallest_priority": job.SMALLEST_PRIORITY,
        "greatest_priority": job.GREATEST_PRIORITY,
        "most_attempts": job.MOST_ATTEMPTS,
        "shortest_timeout": _number(job.SHORTEST_TIMEOUT),
        "longest_timeout": _number(job.LONGEST_TIMEOUT),
        "job_fields": _array(options),
        "job_defaults": json.dumps(defaults),
        "optional_fields": _array([*(name for name, default in options.items() if default is None), "meta"]),
        "on_conflict_choices": _array(get_args(OnConflict)),
        "most_enqueued": operations.MOST_ENQUEUED,
        "largest_batch": operations.LARGEST_BATCH,
        "most_rounds": MOST_ROUNDS,
        "first": SOMEBODY_ELSE_WAS_FIRST,
        "lease": _number(_defaults(ClaimRequest)["lease"]),
        "shortest_lease": _number(operations.SHORTEST_LEASE),
        "longest_lease": _number(operations.LONGEST_LEASE),
        "held": Holding.HELD,
        "lost": Holding.LOST,
        "cancel_requested": Holding.CANCEL_REQUESTED,
        "outcomes": _array(FIELDS),
        "settlement_fields": json.dumps({outcome: [*SHOWN, *more] for outcome, more in FIELDS.items()}),
        "rules": _rules(),
        "backoff_first": _number(backoff.first),
        "backoff_factor": _number(backoff.factor),
        "backoff_cap": _number(backoff.cap),
        "spare": SPARE,
        "further": FURTHER,
        "sweep": SWEEP,
        "evidence_kept": duration(operations.EVIDENCE_KEPT),
    }
    return {name: str(value) for name, value in constants.items()}


def _defaults(kind: type[NewJob | ClaimRequest]) -> dict[str, Any]:
    return {each.name: each.default for each in fields(kind)}


def _rules() -> str:
    """Return what each ending of a holder does, but for completion, as rows."""
    rows = [
        (outcome, rule.state, rule.when_spent, rule.attempts)
        for outcome, rule in RULES.items()
        if outcome in FIELDS and outcome is not Outcome.COMPLETED
    ]
    return ", ".join(
        f"('{outcome}', '{state}', {_literal(spent)}, {attempts})" for outcome, state, spent, attempts in rows
    )


def _literal(word: str | None) -> str:
    return "null" if word is None else f"'{word}'"


def _array(words: Iterable[str]) -> str:
    return "{" + ", ".join(words) + "}"


def _number(value: float) -> str:
    return f"{value:.15g}"
