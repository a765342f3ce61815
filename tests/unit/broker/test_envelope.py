"""The envelope: kombu can read a message of any producer, or the worker refuses it immediately."""

import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kombu.message import Message as AnyMessage
from kombu.transport.virtual.base import Channel, Message
from kombu.utils.json import loads

from roboco.broker.dead_letter import letter_of_message
from roboco.broker.message_reader import (
    MAX_UNREADABLE_BYTES,
    REFUSED_HEADER,
    UnreadableError,
    read_broadcast,
    read_envelope,
    validation_error,
)
from roboco.broker.message_signing import SigningKeys
from roboco.broker.names import AGENTS_QUEUE, TURN_TASK
from roboco.domain.canonical_json import canonical_json
from tests.faults.hostile.producer import (
    BROADCASTS,
    MALFORMED,
    broadcast,
    headers,
    message,
    mutations,
    nested,
    properties,
    raw,
)

KNOWN_TASKS = frozenset({TURN_TASK})


class DisconnectedChannel(Channel):
    """The part of kombu's channel that a message uses."""

    def __init__(self) -> None:
        """Connect to nothing."""


def refusal_of(data: bytes) -> str | None:
    """Return the reason why the transport or the consumer refuses this message, or None. Its dead letter must fit."""
    made: AnyMessage = Message(loads(json.dumps(whole_of(data))), channel=DisconnectedChannel())
    found = validation_error(made, KNOWN_TASKS, SigningKeys(()))
    if found is not None:
        letter = letter_of_message(made, found)
        stored = canonical_json(letter.model_dump(mode="json")).encode()
        assert len(stored) < 6 * MAX_UNREADABLE_BYTES + 64 * 1024
        assert letter.truncated or REFUSED_HEADER not in made.headers
    return found


def whole_of(data: bytes) -> dict[str, Any]:
    """Return the message as kombu receives it."""
    whole = read_envelope(data, AGENTS_QUEUE)
    return whole | {"properties": whole["properties"] | {"delivery_tag": "t"}}


def test_a_malformed_message_is_refused() -> None:
    assert [case for case, data in MALFORMED.items() if not refusal_of(data)] == []


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"[]", "is []: expected an object"),
        (b"null", "is None: expected an object"),
        (b'{"body": "", "headers": {}, "properties": 5}', "'properties' is 5: expected an object"),
    ],
)
def test_a_part_that_is_no_object_is_named(data: bytes, reason: str) -> None:
    assert refusal_of(data) == reason


def test_the_routing_key_of_a_message_is_the_queue_it_was_read_from() -> None:
    """Otherwise a worker would return it to a queue to which its sender may not write."""
    lying = properties(delivery_info={"exchange": "x", "routing_key": "shop.pay", "redelivered": True})
    read = read_envelope(raw(message(properties=lying)), AGENTS_QUEUE)
    info = read["properties"]["delivery_info"]
    assert info == {"exchange": "", "routing_key": AGENTS_QUEUE, "redelivered": True}


@given(st.one_of(st.binary(max_size=400), st.recursive(st.none() | st.floats() | st.text(), st.lists).map(raw)))
def test_any_bytes_are_refused(data: bytes) -> None:
    assert refusal_of(data)
    with pytest.raises(UnreadableError):
        read_broadcast(data, "celery.pidbox")


_JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(exclude_categories=())),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
_FIELD_NAMES = ("body", "content-type", "content-encoding", "headers", "properties", "x")


@given(
    st.dictionaries(st.sampled_from(_FIELD_NAMES), _JSON_VALUES, max_size=2),
    st.dictionaries(
        st.sampled_from(list(headers() | {"compression": 1, "eta": 1, "stamps": 1})), _JSON_VALUES, max_size=2
    ),
    st.dictionaries(st.sampled_from(list(properties() | {"reply_to": 1})), _JSON_VALUES, max_size=2),
)
def test_a_message_with_any_field_is_refused_or_runs(
    whole: dict[str, Any], of_headers: dict[str, Any], of_properties: dict[str, Any]
) -> None:
    parts = {"headers": headers() | of_headers, "properties": properties() | of_properties}
    refusal_of(raw(message() | parts | whole))


def test_random_changes_are_refused_or_run() -> None:
    reasons = [refusal_of(data) for data in mutations(seed=16, count=3000)]
    assert None in reasons
    assert len({reason for reason in reasons if reason}) > 100


def test_a_malformed_broadcast_is_refused_or_unknown() -> None:
    def passes(data: bytes) -> bool:
        try:
            read_broadcast(data, "celery.pidbox")
        except UnreadableError:
            return False
        return True

    passing = [case for case, data in BROADCASTS.items() if passes(data)]
    assert sorted(passing) == ["an unknown method", "arguments that are unknown"]


def test_remote_control_passes() -> None:
    reply = {"exchange": "reply.celery.pidbox", "routing_key": "oid"}
    asked = {"method": "ping", "arguments": {}, "destination": ["a@b"], "reply_to": reply, "ticket": "t"}
    for good in (broadcast(), broadcast(asked)):
        read_broadcast(raw(good), "celery.pidbox")
    read_broadcast(raw(message(b'[{"type": "event"}]')), "celeryev")


@pytest.mark.parametrize(
    "data", [b"unreadable", b"x" * 100_000, raw(message(headers={"id": "a", "task": "b"}) | {"body": 1})]
)
def test_an_unreadable_message_is_read_again_with_its_reason(data: bytes) -> None:
    once = whole_of(data)
    assert whole_of(raw(once))["headers"] == once["headers"]
    assert refusal_of(data) == refusal_of(raw(once)) == once["headers"][REFUSED_HEADER]
    assert ("of 100000 bytes, SHA-256 " in once["headers"][REFUSED_HEADER]) == (len(data) == 100_000)


@pytest.mark.parametrize("piece", [b"[],", b'"",', b'"\\"",', b'"\\"', b"1,"], ids=repr)
def test_a_large_envelope_is_refused_without_being_parsed(piece: bytes) -> None:
    """Parsed, eight megabytes of such pieces would take hundreds."""
    data = b"[" + piece * (8_000_000 // len(piece))
    tracemalloc.start()
    try:
        reason = read_envelope(data, AGENTS_QUEUE)["headers"][REFUSED_HEADER]
        assert tracemalloc.get_traced_memory()[1] < 4 * len(data)
    finally:
        tracemalloc.stop()
    assert "beside its body" in reason or "is no JSON" in reason


def test_a_large_body_passes() -> None:
    body = json.dumps([[], {"prompt": "é, " * 3_000_000}, {}]).encode()
    for whole in (message(body), message(body) | {"body": body.decode(), "properties": properties(body_encoding=None)}):
        assert refusal_of(raw(whole)) is None


def test_the_nesting_of_a_body_is_limited() -> None:
    def reason(depth: int) -> str | None:
        return refusal_of(raw(message(json.dumps([[], {"a": nested(depth)}, {}]).encode())))

    assert reason(70) is None
    assert "nested deeper" in (reason(90) or "")
