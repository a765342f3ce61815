"""The reader of chunks: what one reply may cost."""

import json
from typing import Any

from roboco.model.chat_reader import ChatReader
from roboco.model.reply_assembly import MAX_PROVIDER_BYTES, MAX_REPLY_CALLS, ReplyAssembly
from tests.support.processor_time import assert_costs_at_most


def reader() -> tuple[ReplyAssembly, ChatReader]:
    assembly = ReplyAssembly("m")
    return assembly, ChatReader(assembly, frozenset({"add"}))


def delta(**fields: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": fields}]}


def test_fields_without_end_are_not_kept() -> None:
    assembly, chunks = reader()
    for number in range(300):
        chunks.add_chunk(delta(**{f"x{number % 7}": ["y" * 10_000], "reasoning_content": "z" * 1000}))
    assert assembly.reply().provider == {"left_out": MAX_PROVIDER_BYTES}
    assert len(json.dumps(assembly.provider)) <= 2 * MAX_PROVIDER_BYTES


def test_fields_of_calls_without_end_are_not_kept() -> None:
    assembly, chunks = reader()
    for _ in range(300):
        chunks.add_chunk(delta(tool_calls=[{"index": 0, "id": "x", "function": {"name": "add"}, "y": ["z" * 10_000]}]))
    assert assembly.reply().provider == {"left_out": MAX_PROVIDER_BYTES}
    assert len(json.dumps(assembly.calls[0].provider)) <= 2 * MAX_PROVIDER_BYTES


def test_long_arguments_in_small_pieces_take_little_time() -> None:
    """Each piece has the name again and may end the arguments: they are not read again for each."""
    fragment = {"index": 0, "id": "x", "function": {"name": "add", "arguments": '{"a": "'}}
    piece = delta(tool_calls=[fragment | {"function": {"name": "add", "arguments": "}}}}}}}}"}}])

    def read(pieces: int) -> None:
        assembly, chunks = reader()
        chunks.add_chunk(delta(tool_calls=[fragment]))
        for _ in range(pieces):
            chunks.add_chunk(piece)
        [call] = assembly.reply().calls
        assert len(call.arguments) > 8 * pieces

    assert_costs_at_most(8, lambda: read(4000), lambda: read(1000))


def test_a_list_of_fragments_is_read_as_far_as_a_reply_may_have_calls() -> None:
    assembly, chunks = reader()
    chunks.add_chunk(delta(tool_calls=[{"index": 0, "function": {"arguments": "a"}}] * 1_000_000))
    assert assembly.calls[0].arguments.getvalue() == "a" * (MAX_REPLY_CALLS + 1)


def test_a_whole_message_after_its_pieces_is_not_read_again() -> None:
    _, chunks = reader()
    added = [chunks.add_chunk(delta(content=text))[0] for text in ("so", " it is")]
    whole = {"role": "assistant", "content": "so it is"}
    added.append(chunks.add_chunk({"choices": [{"index": 0, "message": whole, "finish_reason": "stop"}]})[0])
    assert added == ["so", " it is", ""]
