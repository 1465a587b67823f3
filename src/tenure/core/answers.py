"""Answers that a handler returns or raises instead of a result. Returning and raising have the same effect."""

from tenure.core import checks
from tenure.core.checks import Seconds


class Answer(Exception):  # noqa: N818 - not an error: a decision, which may be raised from a nested call
    """Base class of the four answers."""

    def __str__(self) -> str:
        return f"{type(self).__name__}({', '.join(repr(each) for each in self.args if each is not None)})"


@checks.reject_unknown_fields
class Retry(Answer):
    """Retry the job after `delay`, by default after the back-off. The attempt counts."""

    def __init__(self, delay: Seconds | None = None, why: str | None = None) -> None:
        self.delay = checks.optional(checks.seconds, "delay", delay)
        self.why = checks.optional(checks.text, "why", why)
        super().__init__(self.delay, self.why)


@checks.reject_unknown_fields
class Snooze(Answer):
    """Run the job again after `delay`. The attempt does not count."""

    def __init__(self, delay: Seconds) -> None:
        self.delay = checks.seconds("delay", delay)
        super().__init__(self.delay)


@checks.reject_unknown_fields
class Fail(Answer):
    """Fail the job for good, even if attempts are left."""

    def __init__(self, why: str) -> None:
        self.why = checks.text("why", why)
        super().__init__(self.why)


@checks.reject_unknown_fields
class Cancel(Answer):
    """Cancel the job from its handler."""

    def __init__(self, why: str | None = None) -> None:
        self.why = checks.optional(checks.text, "why", why)
        super().__init__(self.why)
