"""The envelope: kombu can read a message of any producer, or the worker refuses it immediately."""

import json
import time
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kombu.message import Message as AnyMessage
from kombu.transport.virtual.base import Channel, Message
from kombu.utils.json import dumps, loads

from roboco.broker import envelope
from roboco.broker.dead_letter import MAX_UNREADABLE_BODY_BYTES, record_of, record_of_raw
from roboco.broker.envelope import (
    MAX_REST_BYTES,
    HeldMessage,
    RefusedMessage,
    read_broadcast,
    read_envelope,
    read_held,
    serialize,
)
from roboco.broker.message_signing import SigningKeys
from roboco.broker.message_validation import validation_error
from roboco.broker.names import AGENTS_QUEUE, TURN_TASK
from roboco.domain.canonical_json import canonical_json
from roboco.domain.dead_letter import DeadLetter
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
    unacked,
)

KNOWN_TASKS = frozenset({TURN_TASK})


class DisconnectedChannel(Channel):
    """The part of kombu's channel that a message uses."""

    def __init__(self) -> None:
        """Connect to nothing."""


def refusal_of(data: bytes) -> str | None:
    """Return the reason why the transport or the consumer refuses this message, or None. Its dead letter must fit."""
    match read_envelope(data, AGENTS_QUEUE):
        case RefusedMessage(reason, given):
            assert assert_dead_letter_fits(record_of_raw(data, AGENTS_QUEUE, reason, given)).truncated
            return reason
        case whole:
            made: AnyMessage = Message(loads(json.dumps(whole)), channel=DisconnectedChannel())
            found = validation_error(made, KNOWN_TASKS, SigningKeys(()))
            if found is not None:
                assert assert_dead_letter_fits(record_of(made, found)).digest
            return found


def assert_dead_letter_fits(record: Mapping[str, Any]) -> DeadLetter:
    stored = canonical_json(record).encode()
    assert len(stored) < 6 * MAX_UNREADABLE_BODY_BYTES + 64 * 1024
    assert set(record) <= set(DeadLetter.model_fields)
    return DeadLetter.model_validate_json(stored)


@pytest.mark.parametrize("case", MALFORMED)
def test_a_malformed_message_is_refused(case: str) -> None:
    start = time.thread_time()
    assert refusal_of(MALFORMED[case])
    assert time.thread_time() - start < 5


def test_the_malformed_messages_are_more_than_90() -> None:
    assert len(MALFORMED) > 90


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"properties": properties(priority=None, body_encoding=None), "body": '[["x"], {}, {}]'},
        {"properties": {"delivery_tag": "a"}, "body": "[[], {}, {}]"},
        {"content-encoding": "UTF-8"},
        {"headers": headers(eta="2026-01-01T00:00:00", expires="2026-01-01T00:00:00+00:00", group="g", note="ü")},
        {"headers": headers(traceparent="00-1", stamped_headers=["a"], stamps={"a": ["b"]}, compression="")},
    ],
    ids=["celery's", "without base64", "of another language", "upper case", "with times", "with stamps"],
)
def test_a_good_message_passes(changed: dict[str, Any]) -> None:
    assert refusal_of(raw(message() | changed)) is None


def test_the_routing_key_of_a_message_is_the_queue_it_was_read_from() -> None:
    """Otherwise a worker would return it to a queue to which its sender may not write."""
    lying = properties(delivery_info={"exchange": "x", "routing_key": "shop.pay", "redelivered": True})
    read = read_envelope(raw(message(properties=lying)), AGENTS_QUEUE)
    assert isinstance(read, dict)
    info = read["properties"]["delivery_info"]
    assert info == {"exchange": "", "routing_key": AGENTS_QUEUE, "redelivered": True}


@given(st.one_of(st.binary(max_size=400), st.recursive(st.none() | st.floats() | st.text(), st.lists).map(raw)))
def test_any_bytes_are_refused(data: bytes) -> None:
    assert refusal_of(data)
    assert isinstance(read_held(data), RefusedMessage)
    assert isinstance(read_broadcast(data, "celery.pidbox"), RefusedMessage)


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


@pytest.mark.parametrize("case", BROADCASTS)
def test_a_malformed_broadcast_is_refused_or_unknown(case: str) -> None:
    read = read_broadcast(BROADCASTS[case], "celery.pidbox")
    assert isinstance(read, RefusedMessage) or case in ("an unknown method", "arguments that are unknown")


def test_remote_control_passes() -> None:
    reply = {"exchange": "reply.celery.pidbox", "routing_key": "oid"}
    asked = {"method": "ping", "arguments": {}, "destination": ["a@b"], "reply_to": reply, "ticket": "t"}
    for good in (broadcast(), broadcast(asked)):
        assert isinstance(read_broadcast(raw(good), "celery.pidbox"), dict)
    assert isinstance(read_broadcast(raw(message(b'[{"type": "event"}]')), "celeryev"), dict)


@pytest.mark.parametrize("case", unacked())
def test_a_malformed_unacknowledged_message_is_refused(case: str) -> None:
    assert isinstance(read_held(unacked()[case]), RefusedMessage)


def test_an_unacknowledged_message_returns_to_its_queue() -> None:
    held = read_held(raw([message(), "", AGENTS_QUEUE]))
    assert isinstance(held, HeldMessage)
    assert held.queue == AGENTS_QUEUE


@pytest.mark.parametrize(
    "changed",
    [
        {"body": "é" * 140_000, "properties": properties(body_encoding=None)},
        {"headers": headers(**{f"n{n}": "é" * 25_000 for n in range(5)})},
        {"headers": headers(**{f"n{n}": [10.0**15] * 10_000 for n in range(5)})},
    ],
    ids=["body", "headers", "numbers"],
)
def test_read_held_reads_what_read_envelope_accepted(changed: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """kombu stores the unacknowledged messages of a worker with ASCII escapes."""
    monkeypatch.setattr(envelope, "MAX_ENVELOPE_BYTES", 300_000)
    monkeypatch.setattr(envelope, "MAX_HELD_BYTES", 3 * 300_000 + 2 * MAX_REST_BYTES)
    received = json.dumps(message() | changed, ensure_ascii=False).replace("1000000000000000.0, ", "1e15,").encode()
    accepted = read_envelope(received, AGENTS_QUEUE)
    assert isinstance(accepted, dict)
    kept = dumps([loads(serialize(accepted)), "", AGENTS_QUEUE]).encode()
    assert len(kept) > 1.3 * len(received)
    assert read_held(kept) == HeldMessage(accepted, AGENTS_QUEUE)


def test_a_serialized_message_exceeds_its_received_length_by_less_than_500_bytes() -> None:
    received = json.dumps(message(headers=headers(note="é" * 25_000)), ensure_ascii=False).encode()
    accepted = read_envelope(received, AGENTS_QUEUE)
    assert isinstance(accepted, dict)
    assert len(serialize(accepted)) < len(received) + 500


@pytest.mark.parametrize("piece", [b"[],", b'"",', b'"\\"",', b'"\\"', b"1,"], ids=repr)
def test_a_large_envelope_is_refused_without_being_parsed(piece: bytes) -> None:
    """Parsed, eight megabytes of such pieces would take hundreds."""
    data = b"[" + piece * (8_000_000 // len(piece))
    start = time.thread_time()
    read = read_envelope(data, AGENTS_QUEUE)
    assert isinstance(read, RefusedMessage)
    assert time.thread_time() - start < 5
    assert "beside its body" in read.reason or "is no JSON" in read.reason


def test_a_large_body_passes() -> None:
    body = json.dumps([[], {"prompt": "é, " * 3_000_000}, {}]).encode()
    for whole in (message(body), message(body) | {"body": body.decode(), "properties": properties(body_encoding=None)}):
        assert refusal_of(raw(whole)) is None


def test_the_nesting_of_a_body_is_limited() -> None:
    def reason(depth: int) -> str | None:
        return refusal_of(raw(message(json.dumps([[], {"a": nested(depth)}, {}]).encode())))

    assert reason(70) is None
    assert "nested deeper" in (reason(90) or "")
