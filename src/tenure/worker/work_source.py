"""One source of a worker: what is to be said to it, what was asked and not answered, and who runs what it gives.

Each source is asked on its own, and if there are several, in a thread of its own. One that does not answer rests for a
moment and is then asked the same again; the others go on meanwhile, and its leases are kept by a keeper of its own.
"""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace

from tenure.backends.protocol import Claiming
from tenure.client.identity import new_token
from tenure.client.keeper import BadNews, Keeper, ticks
from tenure.client.run import Run
from tenure.core.operations import LARGEST_BATCH, Claimed, ClaimRequest, Settlement
from tenure.worker.handler import Handler
from tenure.worker.request_thread import Asker
from tenure.worker.store_retry import Answer, Answering, PatientStore, Question

HINT_KEPT = 0.8
"""Seconds for which claims go on where the last one stopped. After that the next looks at everything, since what became
due behind it may wait for a second at most."""

LONGEST_REST = 1.0
"""Seconds after which it is looked at again, while its answer is still to come."""


class Supply:
    """Used by the claimer alone, but for `ended`, which any thread may add to."""

    def __init__(
        self,
        *,
        number: int,
        store: Claiming,
        asked: Answering,
        keeper: Keeper,
        handlers: Mapping[str, Handler],
        request: ClaimRequest,
    ) -> None:
        self.number = number
        self.store = store
        self.keeper = keeper
        self.handlers = handlers
        self.request = request
        self.may_find = True
        """Whether it may have something to be claimed."""
        self.ended: deque[tuple[Run, Settlement | None]] = deque()
        """How runs ended that nobody was told of."""
        self.sent: list[tuple[Run, Settlement | None]] = []
        """How runs ended that it was told, and has not confirmed."""
        self._patient = PatientStore(asked)
        self._asker: Asker | None = None
        self._all_types = tuple(handlers)
        self._sync_types = tuple(type for type, handler in handlers.items() if not handler.is_async)
        self._asked: Question | None = None
        self._rests_until = 0.0
        self._hint: object = None
        self._looked_at = ticks()
        for handler in handlers.values():
            handler.supply = self

    def stand_beside_others(self, heard: Callable[[], None]) -> None:
        """Be asked in a thread of its own; `heard` is called when an answer has come."""
        self._asker = Asker(self._patient, heard)

    def end(self) -> None:
        """Be asked no more."""
        if self._asker is not None:
            self._asker.end()

    @property
    def is_failing(self) -> bool:
        return self._patient.is_failing

    @property
    def is_unheard(self) -> bool:
        """Whether it was asked something that it has not answered, or has to be told something."""
        return self._asked is not None or bool(self.ended)

    def is_owed(self, now: float) -> bool:
        """Whether it is time to ask again what it did not answer."""
        return self._asked is not None and not self.rests_for(now)

    def rests_for(self, now: float) -> float:
        """Return for how many seconds it is not to be asked."""
        return LONGEST_REST if self._is_asking else max(0.0, self._rests_until - now)

    def types(self, *, is_loop_stalled: bool) -> tuple[str, ...]:
        """Return the types to claim: while the event loop stands still, only those that do not need it."""
        return self._sync_types if is_loop_stalled else self._all_types

    def question(self, wanted: int, now: float, *, is_loop_stalled: bool) -> Question:
        """Return what to ask; if it did not answer the last time, the same again."""
        if self._asked is not None and self._asker is not None and self._asker.has_asked:
            return self._asked
        if self._asked is not None:
            return self._asked_again(self._asked)
        types, request = self.types(is_loop_stalled=is_loop_stalled), None
        if wanted and types:
            hint = self._take_hint(now)
            request = replace(self.request, types=types, limit=wanted, token=new_token(), hint=hint)
        return Question(settlements=self._take_ended(), request=request, sent_at=now)

    def _asked_again(self, question: Question) -> Question:
        """Return the same question, with what has ended meanwhile.

        It comes before the claim: that takes back what ran out while the store was away, and must not find it there.
        What was known of the lines then is too old.
        """
        request = None if question.request is None else replace(question.request, hint=None)
        return replace(question, settlements=self._take_ended(), request=request)

    def ask(self, question: Question) -> Answer | None:
        """Return the answer; None if there was none: then it rests for a while."""
        self._asked = question
        answer = self._patient.ask(question) if self._asker is None else self._asker.ask(question)
        if answer is None:
            self._rests_until = 0.0 if self._is_asking else ticks() + self._patient.pause()
            return None
        self._asked, self._rests_until = None, 0.0
        return answer

    def tell(self, settlements: list[Settlement]) -> Answer | None:
        """Settle at once; None if it did not answer."""
        if self._asker is not None and (self._asker.has_asked or self.is_failing):
            return None
        return self._patient.ask(Question(settlements=settlements, request=None, sent_at=ticks()))

    def runs_of(self, question: Question, request: ClaimRequest, claimed: Claimed, on_bad_news: BadNews) -> list[Run]:
        """Return the runs of what it gave, and keep where to go on."""
        jobs, handlers = claimed.jobs, self.handlers
        # A short batch says that nothing lies beyond: then look at everything.
        self._hint = claimed.hint if len(jobs) >= request.limit else None
        # With a hint it has not looked at everything.
        self.may_find = len(jobs) >= request.limit or request.hint is not None
        return [handlers[job.type].run_of(job, request, question.sent_at, on_bad_news) for job in jobs]

    def look_anew(self) -> None:
        """Let the next claim look at everything."""
        self._hint = None

    @property
    def _is_asking(self) -> bool:
        return self._asker is not None and self._asker.is_asking

    def _take_hint(self, now: float) -> object:
        """Return where to go on; None to look at everything again."""
        hint = self._hint if now - self._looked_at < HINT_KEPT else None
        if hint is None:
            self._looked_at = now
        return hint

    def _take_ended(self) -> list[Settlement]:
        room = min(len(self.ended), LARGEST_BATCH - len(self.sent))
        self.sent += [self.ended.popleft() for _ in range(room)]
        return [settlement for _, settlement in self.sent if settlement is not None]
