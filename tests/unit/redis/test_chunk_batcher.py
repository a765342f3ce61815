"""The chunk batcher answers every call, also while its thread ends or Redis does not respond."""

import queue
import threading
from collections.abc import Callable
from typing import Any, cast

import pytest

from roboco.redis import leases
from roboco.redis.leases import ChunkBatcher
from roboco.redis.scripts import ScriptCall, Scripts
from tests.support.stack import until


class _Scripts:
    """Scripts that answer each call with its first argument and record the size of each batch."""

    def __init__(self, error: Exception | None = None) -> None:
        self.batches: list[int] = []
        self.may_answer = threading.Event()
        self.may_answer.set()
        self._error = error

    def run_all(self, calls: list[ScriptCall]) -> list[Any]:
        self.batches.append(len(calls))
        assert self.may_answer.wait(60)
        if self._error is not None:
            raise self._error
        return [call.arguments[0] for call in calls]


def batcher_on(scripts: _Scripts) -> ChunkBatcher:
    return ChunkBatcher(cast(Scripts, scripts))


def call(argument: object) -> ScriptCall:
    return ScriptCall("emit", [], [argument])


class _RacingQueue(queue.SimpleQueue[Any]):
    """A queue to which a call is added after the thread has checked it for the last time."""

    def __init__(self, send: Callable[[], None]) -> None:
        super().__init__()
        self._send = threading.Thread(target=send)
        self._idle = False

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        try:
            return super().get(block, timeout)
        except queue.Empty:
            self._idle = True
            raise

    def empty(self) -> bool:
        found = super().empty()
        if found and self._idle and self._send.ident is None:
            self._send.start()
            self._send.join(0.05)  # it may have to wait for the thread's end
        return found


def test_a_call_that_arrives_while_the_thread_ends_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "IDLE_TIMEOUT", 0.01)
    batcher, answers = batcher_on(_Scripts()), list[int]()
    monkeypatch.setattr(batcher, "_calls", _RacingQueue(lambda: batcher.send(call(2), answers.append)))
    batcher.send(call(1), answers.append)
    until(lambda: answers == [1, 2], 60, "both calls are answered")


def test_a_call_for_which_no_thread_can_start_is_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its caller gets the error; the next one starts the thread."""

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    batcher, answers = batcher_on(_Scripts()), list[int]()
    with monkeypatch.context() as refused:
        refused.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError, match="new thread"):
            batcher.send(call(1), answers.append)
    batcher.send(call(2), answers.append)
    until(lambda: answers, 60, "the second call is answered")
    assert answers == [2]


def test_calls_that_arrive_while_redis_answers_are_sent_together_in_order() -> None:
    scripts = _Scripts()
    batcher, answers = batcher_on(scripts), list[int]()
    scripts.may_answer.clear()
    batcher.send(call(0), answers.append)
    until(lambda: scripts.batches == [1], 60, "the first call is under way")
    for number in range(1, 8):
        batcher.send(call(number), answers.append)
    scripts.may_answer.set()
    until(lambda: len(answers) == 8, 60, "all are answered")
    assert answers == list(range(8))
    assert scripts.batches == [1, 7]


def test_a_failing_callback_does_not_stop_the_other_callbacks() -> None:
    batcher, answers = batcher_on(_Scripts()), list[int]()

    def fails(_: object) -> None:
        raise ValueError("not this one")

    batcher.send(call(1), fails)
    batcher.send(call(2), answers.append)
    until(lambda: answers == [2], 60, "the other caller is informed")
