"""ChatStream: the pieces of a chat completion are the text of the task, or the stream ends with an error."""

from collections.abc import Iterable

from hypothesis import given

from roboco.domain.stream.item import StreamItem
from roboco.domain.stream.merged import Cursor
from roboco.gateway.openai.chat_stream import SEPARATOR, ChatStream
from roboco.gateway.openai.response_object import ResponseHead
from roboco.gateway.openai.response_stream import ResponseStart
from tests.unit.domain.stream.test_merged import (
    OPERATIONS_AND_LOSSES,
    StreamServer,
    apply_operations,
    follow_live,
    operation_lists,
    resume,
)


def read(items: Iterable[StreamItem]) -> tuple[str, ChatStream]:
    """Return the sent text, and the stream."""
    stream = ChatStream(ResponseHead("task_1", "desk"), ResponseStart(0))
    deltas = [delta for item in items for delta in stream.feed(item)]
    return "".join(delta.get("content", "") for delta in deltas), stream


def agents_text(server: StreamServer) -> str:
    """Return the texts of all agents, as a completion joins them."""
    return SEPARATOR.join(step.text for step in server.steps if step.by_agent and step.text)


@given(operation_lists(OPERATIONS_AND_LOSSES))
def test_an_answer_is_the_committed_text_or_an_error(operations: list[tuple[str, str]]) -> None:
    server = apply_operations(operations)
    for items in (follow_live(server), resume(server, str(Cursor()))):
        sent, stream = read(items)
        if stream.problem is None:
            assert (sent, stream.finish_reason) == (agents_text(server), "stop")
        else:
            assert (stream.problem.code, stream.finish_reason) == ("turn_restarted", "")


def test_a_repeated_turn_with_the_same_text_continues_where_it_was_cut() -> None:
    server = apply_operations(
        [
            ("chunk", "a"),
            ("chunk", "bc"),
            ("restart", ""),
            ("chunk", "a"),
            ("chunk", "bc"),
            ("chunk", "def "),
            ("commit", ""),
        ]
    )
    sent, stream = read(follow_live(server))
    assert (sent, stream.problem) == ("abcdef ", None)
