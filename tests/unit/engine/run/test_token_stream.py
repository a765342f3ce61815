"""TokenStream: the text of a model is published in order, once, and one chunk at a time."""

import threading
from collections.abc import Callable
from typing import Any, cast

import pytest

from roboco.engine.engine import Engine
from roboco.engine.run.claimed_turn import Cancellation
from roboco.engine.run.token_stream import TokenStream
from roboco.errors import TransientError
from roboco.ports.lease_renewals import LeaseStatus
from roboco.ports.leases import Chunk, EmitCallback, TurnClaim
from roboco.ports.snapshot import TokenUsage
from roboco.ports.telemetry import STREAM_LAG_SECONDS
from tests.support.memory_ports.telemetry import MemoryTelemetry


class _ModelStream:
    closed = False

    def close(self) -> None:
        self.closed = True


class _ManualTurns:
    """Turn leases that acknowledge a chunk when a test asks for it."""

    def __init__(self) -> None:
        self.sent: list[Chunk] = []
        self.callbacks: list[EmitCallback] = []

    def emit(self, claim: TurnClaim, chunk: Chunk, on_ack: EmitCallback) -> None:
        self.sent.append(chunk)
        self.callbacks.append(on_ack)

    @property
    def texts(self) -> list[str]:
        return [chunk.message.text for chunk in self.sent]


class _StreamCase:
    def __init__(self) -> None:
        self.turns = _ManualTurns()
        self.telemetry = MemoryTelemetry()
        self.stream = _ModelStream()
        engine: Any = type(
            "E",
            (),
            {
                "tasks": type("T", (), {"leases": self.turns})(),
                "services": type("S", (), {"telemetry": self.telemetry})(),
                "clock": self,
                "now": self.now,
            },
        )()
        self.cancellation = Cancellation(cast(Engine, engine))
        self.cancellation.attach(cast(Any, self.stream))
        order = type("O", (), {"task_id": "task_1", "seq": 3, "attempt": 2})()
        pending = type("P", (), {"agent": "writer"})()
        snapshot = type("T", (), {"position": pending})()
        claim: Any = type("C", (), {"assignment": order, "snapshot": snapshot})()
        self.tokens = TokenStream(cast(Engine, engine), claim, self.cancellation, TokenUsage(70))

    def now(self) -> float:
        return 0.0

    def acknowledge(self, status: LeaseStatus | Exception = LeaseStatus.HELD) -> None:
        self.turns.callbacks.pop(0)(status)


def _start_thread(work: Callable[[], object]) -> tuple[threading.Thread, list[object]]:
    found: list[object] = []

    def run() -> None:
        try:
            found.append(work())
        except TransientError as error:
            found.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, found


def test_text_that_arrives_during_an_emit_is_sent_as_one_chunk() -> None:
    case = _StreamCase()
    for text in ("a", "b", "c"):
        case.tokens.write(text)
    assert case.turns.texts == ["a"]
    case.acknowledge()
    assert case.turns.texts == ["a", "bc"]
    case.acknowledge()
    case.tokens.write("d")
    case.acknowledge()
    assert case.tokens.close(whole=True) is LeaseStatus.HELD
    assert case.tokens.texts == ["a", "bc", "d"]
    assert [chunk.number for chunk in case.turns.sent] == [1, 2, 3]
    assert [chunk.used.tokens_out for chunk in case.turns.sent] == [1, 1, 1]
    assert {chunk.used.tokens_in for chunk in case.turns.sent} == {70}
    assert len(case.telemetry.values(STREAM_LAG_SECONDS)) == 3


def test_half_of_a_surrogate_pair_waits_for_the_other() -> None:
    case = _StreamCase()
    for text in ("\ud83d", "\ude00", "x\ud83d"):
        case.tokens.write(text)
        if case.turns.callbacks:
            case.acknowledge()
    thread, _ = _start_thread(lambda: case.tokens.close(whole=True))
    while not case.turns.callbacks:
        thread.join(0.01)
    case.acknowledge()
    thread.join(10)
    assert case.tokens.texts == ["\U0001f600", "x", "\ufffd"]


def test_no_text_is_sent_after_a_cancellation() -> None:
    case = _StreamCase()
    case.tokens.write("a")
    case.tokens.write("b")
    case.acknowledge(LeaseStatus.CANCEL_REQUESTED)
    case.tokens.write("c")
    assert case.cancellation.requested
    assert case.stream.closed
    assert case.tokens.close(whole=False) is LeaseStatus.CANCEL_REQUESTED
    assert case.tokens.texts == case.turns.texts == ["a"]


def test_a_lost_lease_closes_the_stream() -> None:
    case = _StreamCase()
    case.tokens.write("a")
    case.tokens.write("b")
    case.acknowledge(LeaseStatus.LOST)
    assert case.stream.closed
    assert not case.cancellation.requested
    assert not case.tokens.close(whole=True)
    assert case.turns.texts == ["a"]


def test_a_chunk_that_cannot_be_sent_fails_the_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the caller of `close` would wait forever."""
    case = _StreamCase()

    def emit(claim: TurnClaim, chunk: Chunk, callbacks: EmitCallback) -> None:
        raise ValueError("no such thread")

    monkeypatch.setattr(case.turns, "emit", emit)
    case.tokens.write("a")
    assert case.stream.closed
    with pytest.raises(ValueError, match="no such thread"):
        case.tokens.close(whole=True)
