"""InstrumentedModel: the replies of the wrapped model are unchanged, and its calls are measured."""

from collections.abc import Iterator
from typing import Any

import pytest

from roboco.domain.team.model_profile import ModelProfile
from roboco.errors import ModelError
from roboco.ports.model import Listener, Reply, Request
from roboco.ports.telemetry import FIRST_TOKEN_SECONDS, OPEN_STREAMS, Operation
from roboco.telemetry.instrumented_model import instrumented
from tests.support.memory_ports.model import ScriptedModel, ScriptedReply, says
from tests.support.memory_ports.telemetry import MemoryTelemetry

REQUEST = Request(ModelProfile(model="small"), (), ())


def start_stream(script: ScriptedReply) -> tuple[MemoryTelemetry, Iterator[str | Reply], Any]:
    telemetry = MemoryTelemetry()
    running = instrumented(ScriptedModel(lambda request: script).stream, telemetry)(REQUEST, None)
    return telemetry, iter(running), running


def test_a_call_is_measured_from_start_to_end_or_error() -> None:
    failed, pieces, running = start_stream(ScriptedReply(error=ModelError("timeout", "too late", True)))
    with pytest.raises(ModelError, match="too late"):
        list(pieces)
    running.close()
    assert (failed.annotations, failed.values(OPEN_STREAMS)) == ([{"error": "timeout"}], [1, -1])
    telemetry, pieces, running = start_stream(says("one two"))
    assert telemetry.values(OPEN_STREAMS) == [1]
    *texts, reply = pieces
    assert texts == ["one", " two"]
    assert isinstance(reply, Reply)
    assert len(telemetry.values(FIRST_TOKEN_SECONDS, "small")) == 1
    assert (telemetry.annotations[0] or {})["tokens_in"] == 10
    assert telemetry.operations == [Operation("model", model="small")]
    running.close()
    running.close()
    assert telemetry.values(OPEN_STREAMS) == [1, -1]
    assert running.wait_closed(0)


def test_a_call_with_a_text_callback_is_measured() -> None:
    telemetry = MemoryTelemetry()
    texts: list[str] = []
    call_model = instrumented(ScriptedModel(lambda request: says("one two")).stream, telemetry)
    running = call_model(REQUEST, Listener(texts.append))
    [reply] = running
    assert isinstance(reply, Reply)
    assert texts == ["one", " two"]
    assert len(telemetry.values(FIRST_TOKEN_SECONDS, "small")) == 1
    running.close()
