"""OpenAI's clients while gateways end: no part of an answer is taken for the whole, and any gateway has the rest."""

import signal
import threading

import openai
import pytest
from openai.types.responses import ResponseStreamEvent

from tests.support.gateway_openai import LONG_ANSWER
from tests.support.gateway_process import GatewayProcess
from tests.support.stack import Stack, until

pytestmark = pytest.mark.workers
STREAMS = 8


def text_of(events: list[ResponseStreamEvent]) -> str:
    """Return the text of the deltas."""
    return "".join(event.delta for event in events if event.type == "response.output_text.delta")


@pytest.mark.parametrize("sign", [pytest.param(signal.SIGKILL, marks=pytest.mark.slow), signal.SIGTERM])
def test_a_stream_of_a_gateway_that_ends_raises_and_resumes(openai_stack: Stack, sign: signal.Signals) -> None:
    events: list[list[ResponseStreamEvent]] = [[] for _ in range(STREAMS)]
    errors: list[Exception] = []
    with GatewayProcess(openai_stack) as first, GatewayProcess(openai_stack) as second:

        def follow(number: int) -> None:
            question = f"slow and long {number} {sign}"
            with first.client() as client:
                try:
                    for event in client.responses.create(model="desk", input=question, stream=True):
                        events[number].append(event)
                except openai.APIError as error:
                    errors.append(error)

        threads = [threading.Thread(target=follow, args=(number,)) for number in range(STREAMS)]
        for thread in threads:
            thread.start()
        until(lambda: errors or min(len(text_of(seen)) for seen in events) >= 20, 60, "every client has some text")
        assert errors == []
        first.server.process.send_signal(sign)
        first.server.process.wait(180)
        for thread in threads:
            thread.join(180)
        assert not any(thread.is_alive() for thread in threads)
        assert [type(error) for error in errors] == [openai.APIConnectionError] * STREAMS
        with second.client() as client:
            for seen in events:
                created = seen[0]
                assert created.type == "response.created"
                assert len(text_of(seen)) < len("".join(LONG_ANSWER))
                rest = client.responses.retrieve(
                    created.response.id, stream=True, starting_after=seen[-1].sequence_number
                )
                assert text_of([*seen, *rest]) == "".join(LONG_ANSWER)


def test_two_gateways_are_one(openai_stack: Stack) -> None:
    """A response begins on one, is read and cancelled on the other, and continues on the first."""
    with (
        GatewayProcess(openai_stack) as one,
        GatewayProcess(openai_stack) as other,
        one.client() as left,
        other.client() as right,
    ):
        stream = left.responses.create(model="desk", input="endless", stream=True)
        created = next(iter(stream))
        assert created.type == "response.created"
        rest = right.responses.retrieve(created.response.id, stream=True)
        for event in rest:
            if event.type == "response.output_text.delta":
                assert left.responses.cancel(created.response.id).status == "cancelled"
                break
        *_, last = rest
        assert last.type == "response.incomplete"
        assert right.responses.retrieve(created.response.id).output == last.response.output
        again = left.responses.create(model="desk", input="more", previous_response_id=created.response.id)
        assert "more" in again.output_text
