"""What a model says goes out in order, once, and one chunk at a time."""

import threading
from collections.abc import Callable
from typing import Any, cast

import pytest

from roboco.engine.engine import Engine
from roboco.engine.execution.cancellation import Cancellation
from roboco.engine.execution.token_stream import TokenStream
from roboco.errors import TransientError
from roboco.ports.leases import Chunk, EmitCallback, LeaseStatus, TurnClaim
from roboco.ports.telemetry import STREAM_LAG_SECONDS
from tests.support.memory_ports.telemetry import MemoryTelemetry


class _Stream:
    closed = False

    def close(self) -> None:
        self.closed = True


class _Turns:
    """Answers when a test says so."""

    def __init__(self) -> None:
        self.sent: list[Chunk] = []
        self.heard: list[EmitCallback] = []

    def emit(self, claim: TurnClaim, chunk: Chunk, on_ack: EmitCallback) -> None:
        self.sent.append(chunk)
        self.heard.append(on_ack)

    @property
    def texts(self) -> list[str]:
        return [chunk.message.text for chunk in self.sent]


class _Case:
    def __init__(self) -> None:
        self.turns = _Turns()
        self.telemetry = MemoryTelemetry()
        self.stream = _Stream()
        engine: Any = type(
            "E", (), {"turns": self.turns, "telemetry": self.telemetry, "clock": self, "now": self.now}
        )()
        self.ending = Cancellation(cast(Engine, engine))
        self.ending.attach(cast(Any, self.stream))
        order = type("O", (), {"task_id": "task_1", "seq": 3, "attempt": 2})()
        claim: Any = type("C", (), {"assignment": order, "snapshot": type("T", (), {"agent": "writer"})()})()
        self.speech = TokenStream(cast(Engine, engine), claim, self.ending, 70)

    def now(self) -> float:
        return 0.0

    def answer(self, what: LeaseStatus | Exception = LeaseStatus.HELD) -> None:
        self.turns.heard.pop(0)(what)


def _soon(work: Callable[[], object]) -> tuple[threading.Thread, list[object]]:
    found: list[object] = []

    def run() -> None:
        try:
            found.append(work())
        except TransientError as error:
            found.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, found


def test_what_comes_while_a_chunk_is_on_its_way_goes_out_together() -> None:
    case = _Case()
    for text in ("a", "b", "c"):
        case.speech.write(text)
    assert case.turns.texts == ["a"]
    case.answer()
    assert case.turns.texts == ["a", "bc"]
    case.answer()
    case.speech.write("d")
    case.answer()
    assert case.speech.close(whole=True) is LeaseStatus.HELD
    assert case.speech.texts == ["a", "bc", "d"]
    assert [chunk.number for chunk in case.turns.sent] == [1, 2, 3]
    assert [chunk.used.tokens_out for chunk in case.turns.sent] == [1, 1, 1]
    assert {chunk.used.tokens_in for chunk in case.turns.sent} == {70}
    assert len(case.telemetry.values(STREAM_LAG_SECONDS)) == 3


def test_the_end_waits_for_what_is_on_its_way() -> None:
    case = _Case()
    case.speech.write("a")
    case.speech.write("b")
    thread, found = _soon(lambda: case.speech.close(whole=True))
    thread.join(0.05)
    assert thread.is_alive()
    case.answer()
    case.answer()
    thread.join(10)
    assert found == [LeaseStatus.HELD]
    assert case.speech.texts == ["a", "b"]


def test_half_of_a_character_waits_for_the_other() -> None:
    case = _Case()
    for text in ("\ud83d", "\ude00", "x\ud83d"):
        case.speech.write(text)
        if case.turns.heard:
            case.answer()
    thread, _ = _soon(lambda: case.speech.close(whole=True))
    while not case.turns.heard:
        thread.join(0.01)
    case.answer()
    thread.join(10)
    assert case.speech.texts == ["\U0001f600", "x", "\ufffd"]


def test_nothing_is_said_after_somebody_has_asked_for_the_end() -> None:
    case = _Case()
    case.speech.write("a")
    case.speech.write("b")
    case.answer(LeaseStatus.CANCEL_REQUESTED)
    case.speech.write("c")
    assert case.ending.requested
    assert case.stream.closed
    assert case.speech.close(whole=False) is LeaseStatus.CANCEL_REQUESTED
    assert case.speech.texts == case.turns.texts == ["a"]


def test_an_answer_that_came_whole_is_cut_where_its_end_was_asked_for_before_it_went_out() -> None:
    case = _Case()
    case.speech.write("a")
    case.speech.write("b")
    thread, found = _soon(lambda: case.speech.close(whole=True))
    case.answer(LeaseStatus.CANCEL_REQUESTED)
    thread.join(10)
    assert found == [LeaseStatus.CANCEL_REQUESTED]
    assert case.speech.texts == ["a"]
    assert case.speech.truncated


def test_an_answer_that_went_out_is_whole_though_its_end_was_asked_for() -> None:
    case = _Case()
    case.speech.write("a")
    thread, found = _soon(lambda: case.speech.close(whole=True))
    case.answer(LeaseStatus.CANCEL_REQUESTED)
    thread.join(10)
    assert found == [LeaseStatus.CANCEL_REQUESTED]
    assert not case.speech.truncated


def test_a_lost_turn_closes_its_stream() -> None:
    case = _Case()
    case.speech.write("a")
    case.speech.write("b")
    case.answer(LeaseStatus.LOST)
    assert case.stream.closed
    assert not case.ending.requested
    assert not case.speech.close(whole=True)
    assert case.turns.texts == ["a"]


def test_what_is_not_answered_fails_the_turn() -> None:
    case = _Case()
    case.speech.write("a")
    case.answer(TransientError("no answer"))
    case.speech.write("b")
    assert case.stream.closed
    with pytest.raises(TransientError, match="no answer"):
        case.speech.close(whole=True)
    assert case.turns.texts == ["a"]


def test_nothing_is_said_after_the_end() -> None:
    case = _Case()
    assert case.speech.close(whole=False) is LeaseStatus.HELD
    case.speech.write("late")
    assert case.turns.sent == []


def test_what_cannot_even_be_sent_fails_the_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever it is: whoever waits for the end would wait for ever."""
    case = _Case()

    def emit(claim: TurnClaim, chunk: Chunk, heard: EmitCallback) -> None:
        raise ValueError("no such thread")

    monkeypatch.setattr(case.turns, "emit", emit)
    case.speech.write("a")
    assert case.stream.closed
    with pytest.raises(ValueError, match="no such thread"):
        case.speech.close(whole=True)
