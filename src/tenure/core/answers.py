"""What a handler may answer instead of a result: returned or raised, it is the same."""

from tenure.core import checks
from tenure.core.checks import Seconds


class Answer(Exception):  # noqa: N818 - not an error: a decision, which may be raised from a nested call
    """Root of the four answers."""

    def __str__(self) -> str:
        return f"{type(self).__name__}({', '.join(repr(each) for each in self.args if each is not None)})"


@checks.reject_unknown_fields
class Retry(Answer):
    """Try again after `delay`, or after the back-off; the attempt counts."""

    def __init__(self, delay: Seconds | None = None, why: str | None = None) -> None:
        self.delay = checks.optional(checks.seconds, "delay", delay)
        self.why = checks.optional(checks.text, "why", why)
        super().__init__(self.delay, self.why)


@checks.reject_unknown_fields
class Snooze(Answer):
    """Run again after `delay`; the attempt is given back."""

    def __init__(self, delay: Seconds) -> None:
        self.delay = checks.seconds("delay", delay)
        super().__init__(self.delay)


@checks.reject_unknown_fields
class Fail(Answer):
    """Fail for good, whatever attempts are left."""

    def __init__(self, why: str) -> None:
        self.why = checks.text("why", why)
        super().__init__(self.why)


@checks.reject_unknown_fields
class Cancel(Answer):
    """Cancel the job from within."""

    def __init__(self, why: str | None = None) -> None:
        self.why = checks.optional(checks.text, "why", why)
        super().__init__(self.why)
