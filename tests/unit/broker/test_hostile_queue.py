"""Malformed messages for the other readers of the broker: sweepers that inspect a queue, and workers on RabbitMQ."""

import zlib
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from roboco.broker.dead_letter import letter_of_message
from roboco.broker.message_reader import MAX_ANSWER_BYTES, MAX_BODY_BYTES, validation_error
from roboco.broker.message_signing import SigningKeys
from roboco.broker.names import TASK_ANSWER_TASK, TURN_TASK
from roboco.broker.queues import SENT_AT, headers_of, sent_at
from roboco.broker.transport import AmqpMessage
from roboco.domain.canonical_json import canonical_json
from tests.faults.hostile.producer import BODY, MALFORMED, headers


def test_a_sweeper_inspects_any_message() -> None:
    times = [sent_at(headers_of(data)) for data in MALFORMED.values()]
    assert all(at is None or isinstance(at, float) for at in times)
    wrong: list[object] = [10**400, "NaN", "inf", float("nan"), [], None]
    assert [sent_at({SENT_AT: value}) for value in wrong] == [None] * len(wrong)


def rabbitmq_message(body: bytes = BODY, **changed: Any) -> AmqpMessage:
    properties = {"content_type": "application/json", "content_encoding": "utf-8", "application_headers": headers()}
    return AmqpMessage(
        SimpleNamespace(
            body=body, delivery_tag=1, delivery_info={"routing_key": "roboco.agents"}, properties=properties | changed
        )
    )


def test_a_compressed_message_is_refused_on_rabbitmq_without_decompression() -> None:
    packed = zlib.compress(b" " * 10_000_000)
    message: Any = rabbitmq_message(packed, application_headers=headers(compression="application/x-gzip"))
    assert message.body == packed
    [(_, error, _)] = message.errors
    assert "compressed messages are not read" in str(error)


@pytest.mark.parametrize(
    "changed",
    [
        {"application_headers": headers(note=float("nan"))},
        {"application_headers": headers(note="\ud800")},
        {"application_headers": headers(note=b"bytes")},
        {"application_headers": headers(retries="x")},
        {"application_headers": headers(roboco_refused="")},
        {"content_encoding": "zlib_codec"},
        {"content_type": "application/x-python-serialize"},
    ],
)
def test_a_malformed_message_on_rabbitmq_is_refused_and_recorded(changed: dict[str, Any]) -> None:
    message: Any = rabbitmq_message(**changed)
    reason = validation_error(message, {TURN_TASK}, SigningKeys(()))
    assert reason
    canonical_json(letter_of_message(message, reason).model_dump(mode="json")).encode()
    good: Any = rabbitmq_message()
    assert validation_error(good, {TURN_TASK}, SigningKeys(())) is None


@pytest.mark.parametrize(
    ("changed", "size", "wrong"),
    [
        ({"timelimit": [None, None], "eta": None}, 0, None),
        ({"eta": (datetime.now(UTC) + timedelta(minutes=59)).isoformat()}, 0, "header 'eta'"),
        ({"expires": "2999-01-01T00:00:00"}, 0, "header 'expires'"),
        ({"timelimit": [None, 600_000]}, 0, "header 'timelimit'"),
        ({}, MAX_ANSWER_BYTES, "at most 33554432 are possible for an answer"),
    ],
)
def test_no_worker_holds_an_answer_without_a_signature(changed: dict[str, Any], size: int, wrong: str | None) -> None:
    body = b'[["' + b"x" * size + b'"], {}, {}]'
    message: Any = rabbitmq_message(body, application_headers=headers(task=TASK_ANSWER_TASK, **changed))
    found = validation_error(message, {TASK_ANSWER_TASK}, SigningKeys(("k" * 32,)))
    assert found is None if wrong is None else wrong in str(found)


def test_a_body_above_the_limit_is_not_decoded() -> None:
    message: Any = rabbitmq_message(b"x" * (MAX_BODY_BYTES + 1))
    assert "at most 67108864 are possible" in str(validation_error(message, {TURN_TASK}, SigningKeys(())))
