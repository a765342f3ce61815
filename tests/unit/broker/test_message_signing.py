"""Signatures of messages: the fields they cover, and their lifetime."""

import hashlib
import hmac
import json
import time
from typing import Any

import pytest

from roboco.broker.consumer import runnable_tasks
from roboco.broker.message_signing import MAX_CLOCK_SKEW, SIGNATURE_HEADER, SIGNATURE_LIFETIME, SigningKeys
from roboco.broker.names import (
    ADVANCE_TASK,
    AGENTS_QUEUE,
    LIST_TOOLS_TASK,
    QUEUE_OF,
    QUEUES,
    TOOL_TASK,
    TOOLS_QUEUE,
    TURN_TASK,
)

KEYS = SigningKeys(("k" * 32,))
HEADERS = {"task": TURN_TASK, "id": "1", "eta": None, "timelimit": [None, None]}
BODY = b'[[], {"task_id": "t"}, {}]'


def sign_headers(**more: Any) -> dict[str, Any]:
    headers = HEADERS | more
    KEYS.sign(headers, BODY)
    return headers


def test_a_signature_is_computed_as_documented() -> None:
    before = int(time.time())
    sent, _, made = sign_headers()[SIGNATURE_HEADER].partition(":")
    text = f'[{sent},"roboco.turn","1",null,null,[null,null]]\n'.encode() + BODY
    assert made == hmac.new(b"k" * 32, text, hashlib.sha256).hexdigest()
    assert before <= int(sent) <= time.time()


@pytest.mark.parametrize("name", ["task", "id", "eta", "expires", "timelimit"])
def test_every_field_that_affects_execution_is_covered(name: str) -> None:
    assert KEYS.signature_error(sign_headers(), BODY) is None
    assert "changed" in (KEYS.signature_error(sign_headers() | {name: "other"}, BODY) or "")
    assert "changed" in (KEYS.signature_error(sign_headers(), BODY + b" ") or "")


def test_a_malformed_signature_is_refused() -> None:
    wrong: list[Any] = [None, "", "1:", ":a", "x:a", "-1:a", "١:a", f"{'1' * 20}:a", 7, [], {"a": 1}, "1"]
    reasons = [KEYS.signature_error(HEADERS | {SIGNATURE_HEADER: value}, BODY) or "" for value in wrong]
    assert all("not signed" in reason for reason in reasons)


@pytest.mark.parametrize(
    ("later", "valid"),
    [(0, True), (SIGNATURE_LIFETIME - 9, True), (SIGNATURE_LIFETIME + 9, False), (-MAX_CLOCK_SKEW - 9, False)],
)
def test_a_signature_is_valid_for_its_lifetime(later: int, valid: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    headers, now = sign_headers(), time.time()
    monkeypatch.setattr(time, "time", lambda: now + later)
    assert (KEYS.signature_error(headers, BODY) is None) == valid


def test_the_first_key_signs_and_every_key_verifies() -> None:
    both = SigningKeys(("n" * 32, "k" * 32))
    assert both.signature_error(sign_headers(), BODY) is None
    headers: dict[str, Any] = dict(HEADERS)
    both.sign(headers, BODY)
    assert SigningKeys(("n" * 32,)).signature_error(headers, BODY) is None
    assert KEYS.signature_error(headers, BODY) is not None


def test_the_keys_appear_in_no_text() -> None:
    assert "kkk" not in repr(KEYS) + str(KEYS) + json.dumps({"keys": KEYS}, default=repr)


def test_a_pool_runs_the_tasks_of_its_queues() -> None:
    registered = [*QUEUE_OF, "celery.map", "celery.chord", "shop.own"]
    assert runnable_tasks(registered, [AGENTS_QUEUE]) == {TURN_TASK, "shop.own"}
    assert runnable_tasks(registered, [TOOLS_QUEUE, "shop"]) == {TOOL_TASK, LIST_TOOLS_TASK, "shop.own"}
    assert runnable_tasks(registered, QUEUES) == {*QUEUE_OF, "shop.own"}
    assert ADVANCE_TASK in runnable_tasks(registered, ["a queue of the shop's own"])
