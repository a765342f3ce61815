"""Callbacks: a tenant reaches only the Celery tasks and queues that the operator allows, without other options."""

import json
import re
from typing import Any

import pytest

from roboco.domain.notification import NotifyTarget, check_callback
from roboco.errors import UsageError
from roboco.notifications.callback import CallbackSender
from tests.integration.producers.test_webhooks import create_notification

DECIMAL = {"__type__": "decimal", "__value__": "1e9999999"}
"""JSON that kombu decodes as a Decimal."""
ALLOWED = ("shop.heard", "shop.paid@money")


def signature(task: str = "shop.heard", options: object = None, **more: Any) -> dict[str, Any]:
    return {"task": task, "args": [], "kwargs": {}, "options": options or {}} | more


@pytest.mark.parametrize(
    "given",
    [
        signature(),
        {"task": "shop.heard"},
        signature("shop.paid", {"queue": "money"}),
        signature(subtask_type=None, immutable=True, chord_size=None, args=[1], kwargs={"a": 1}),
    ],
)
def test_a_callback_that_the_operator_allows_is_accepted(given: dict[str, Any]) -> None:
    check_callback(NotifyTarget(celery=given), ALLOWED)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (signature("shop.refund"), "'shop.refund' is not allowed: add it to callbacks of ROBOCO_ALLOWLIST"),
        (signature("shop.heard", {"queue": "money"}), "'shop.heard@money' is not allowed"),
        (signature("shop.paid@money"), "is not allowed"),
        (signature("roboco.stop", {"queue": "roboco.coordinator"}), "is not allowed"),
        (signature("shop.heard", {"exchange": "x"}), "option 'exchange' is not supported"),
        (signature("shop.heard", {"link": [signature("shop.refund")]}), "option 'link' is not supported"),
        (signature("shop.heard", ["queue"]), "'options' ['queue'] is not supported"),
        (signature("shop.heard", {"queue": ["a"]}), "option 'queue' is ['a']"),
        (signature("shop.heard", subtask_type="chain"), "not a canvas"),
        (signature("shop.heard", chain=[]), "'chain' is not supported"),
        (signature("shop.heard", args={"a": 1}), "'args' must be a list"),
        (signature(kwargs={"a": [{"b": DECIMAL}]}), "'__type__' is a key in the signature"),
        (signature(options={"queue": DECIMAL}), "'__type__' is a key in the signature"),
    ],
)
def test_a_callback_that_the_operator_does_not_allow_is_refused(given: dict[str, Any], reason: str) -> None:
    with pytest.raises(UsageError) as refused:
        check_callback(NotifyTarget(celery=given), ALLOWED)
    assert reason in str(refused.value)
    with pytest.raises(UsageError, match=re.escape(reason)):  # delivery of a stored target checks it too
        CallbackSender("memory://", ALLOWED).deliver(NotifyTarget(celery=given), create_notification())


def test_a_submitted_callback_with_a_continuation_is_refused() -> None:
    for more in ({"confirmed": True}, {"continuation": "{}"}):
        with pytest.raises(UsageError, match="leave out 'confirmed' and 'continuation'"):
            check_callback(NotifyTarget.model_validate({"celery": signature()} | more), ALLOWED)
    with pytest.raises(UsageError, match=r"for 'roboco\.ended' only"):
        CallbackSender("memory://", ALLOWED).deliver(
            NotifyTarget(celery=signature(), confirmed=True), create_notification()
        )


@pytest.mark.parametrize(
    ("stored", "warns"),
    [
        ({"broker": "redis://h/1"}, True),
        ({"broker": "memory://"}, False),
        ({}, False),  # stored by a release without this field
    ],
)
def test_delivery_to_a_broker_that_is_not_the_applications_warns(
    stored: dict[str, str], warns: bool, caplog: pytest.LogCaptureFixture
) -> None:
    target = NotifyTarget(celery={"task": "roboco.ended"}, confirmed=True, continuation=json.dumps(stored))
    CallbackSender("memory://").deliver(target, create_notification())
    assert ("set ROBOCO_CALLBACK_BROKER_URL of the coordinators" in caplog.text) is warns
    assert ("the application that waits for it is redis://h/1" in caplog.text) is warns
