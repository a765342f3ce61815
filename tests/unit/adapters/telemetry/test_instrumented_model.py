"""A model that is observed says the same, and what it did is noted."""

from collections.abc import Iterator
from typing import Any

import pytest

from roboco.adapters.telemetry.instrumented_model import InstrumentedModel
from roboco.domain.team.model_profile import ModelProfile
from roboco.errors import ModelError
from roboco.ports.model import Reply, Request
from roboco.ports.telemetry import FIRST_TOKEN_SECONDS, OPEN_STREAMS, Operation
from tests.support.memory_ports.model import Said, ScriptedModel, said
from tests.support.memory_ports.telemetry import MemoryTelemetry

REQUEST = Request(ModelProfile(model="small"), (), ())


def stream(script: Said) -> tuple[MemoryTelemetry, Iterator[str | Reply], Any]:
    notes = MemoryTelemetry()
    running = InstrumentedModel(ScriptedModel(lambda request: script), notes).stream(REQUEST)
    return notes, iter(running), running


def test_a_call_from_its_begin_to_its_end() -> None:
    notes, pieces, running = stream(said("one two"))
    assert notes.values(OPEN_STREAMS) == [1]
    *texts, reply = pieces
    assert texts == ["one", " two"]
    assert isinstance(reply, Reply)
    assert len(notes.values(FIRST_TOKEN_SECONDS, "small")) == 1
    assert (notes.annotations[0] or {})["tokens_in"] == 10
    assert notes.operations == [Operation("model", model="small")]
    running.close()
    running.close()
    assert notes.values(OPEN_STREAMS) == [1, -1]
    assert running.wait_closed(0)


def test_a_call_that_says_nothing_but_calls() -> None:
    notes, pieces, running = stream(said("", ("add", {})))
    list(pieces)
    running.close()
    assert len(notes.values(FIRST_TOKEN_SECONDS, "small")) == 1


def test_a_call_that_fails() -> None:
    notes, pieces, running = stream(Said(error=ModelError("timeout", "too late", True)))
    with pytest.raises(ModelError, match="too late"):
        list(pieces)
    running.close()
    assert notes.annotations == [{"error": "timeout"}]
    assert notes.values(OPEN_STREAMS) == [1, -1]


def test_a_call_whose_texts_go_to_somebody_else() -> None:
    notes = MemoryTelemetry()
    texts: list[str] = []
    model = InstrumentedModel(ScriptedModel(lambda request: said("one two")), notes)
    running = model.stream(REQUEST, texts.append)
    [reply] = running
    assert isinstance(reply, Reply)
    assert texts == ["one", " two"]
    assert len(notes.values(FIRST_TOKEN_SECONDS, "small")) == 1
    running.close()
