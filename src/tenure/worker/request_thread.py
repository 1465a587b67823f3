"""Asks a source in a thread of its own, so that one that takes long to answer keeps no other source waiting."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue

from tenure.client.keeper import ticks
from tenure.core.operations import Hold
from tenure.core.transitions import released
from tenure.worker.store_retry import Answer, PatientStore, Question

PATIENCE = 1.0
"""Seconds that others wait for an answer, unless the last question had none."""


class Asker:
    """Has at most one question under way. `heard` is called, in its thread, whenever one has come to its end."""

    def __init__(self, store: PatientStore, heard: Callable[[], None]) -> None:
        self._store = store
        self._heard = heard
        self._questions: SimpleQueue[tuple[Question, Future[Answer | None]] | None] = SimpleQueue()
        self._asked: tuple[Question, Future[Answer | None]] | None = None
        self._thread: threading.Thread | None = None

    @property
    def has_asked(self) -> bool:
        """Whether there is a question whose end nobody has taken notice of."""
        return self._asked is not None

    @property
    def is_asking(self) -> bool:
        """Whether the answer is still to come."""
        return self._asked is not None and not self._asked[1].done()

    def ask(self, question: Question) -> Answer | None:
        """Return the answer; None if there was none, or it is still to come: then ask the same again."""
        patience = 0.0 if self._store.is_failing else PATIENCE
        if self._asked is None:
            self._asked = question, Future()
            self._start()
            self._questions.put(self._asked)
        try:
            answer = self._asked[1].result(patience)
        except TimeoutError:
            return None
        self._asked = None
        return answer

    def end(self) -> None:
        """Ask no more. What a question that is under way still takes is given back."""
        self._questions.put(None)
        if self._asked is not None:
            question, end = self._asked
            end.add_done_callback(lambda done: self._give_back(question, done.result()))

    def _start(self) -> None:
        if self._thread is None:
            # A daemon: the process must be able to end while a store does not answer.
            self._thread = threading.Thread(target=self._run, name="tenure-asker", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while (asked := self._questions.get()) is not None:
            question, end = asked
            end.set_result(self._store.ask(question))
            self._heard()

    def _give_back(self, question: Question, answer: Answer | None) -> None:
        if question.request is None or answer is None or answer.claimed is None or not answer.claimed.jobs:
            return
        holds = [Hold(id=job.id, fence=job.fence, token=question.request.token) for job in answer.claimed.jobs]
        settlements = [released(hold) for hold in holds]
        self._store.ask(Question(settlements=settlements, request=None, sent_at=ticks()))
