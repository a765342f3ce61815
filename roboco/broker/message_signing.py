"""message_signing: HMAC signatures of Celery messages.

A broker authenticates connections, not messages: every service that shares it can write to Roboco's queues. With
signing, workers accept only messages of senders that have a key. The header `roboco_signature` is TIME:HEX, where TIME
is in whole Unix seconds, and HEX the HMAC-SHA256 of

    [TIME,"task","id",eta,expires,timelimit]    as JSON without spaces: headers of the message, or null
    body                                        on the next line, as it is sent

Other headers are only displayed or measured, and not covered. A signature does not prevent replay: a copy of a message
is valid for a week. That is harmless, because a repeated message has no second effect as long as the task's workspace
exists. The time bounds how long a copy is valid after that. Several keys allow rotation: the first one signs, and all
are accepted.

The answer of a shop's Celery task is accepted without a signature, because the shop's workers have no key. It contains
a secret of its call instead, which a coordinator compares (`shop_task.py`).
"""

import hashlib
import hmac
import json
import time
from collections.abc import Callable, Mapping, MutableMapping
from typing import Any, Final

from celery import Celery
from kombu.serialization import dumps

from roboco.broker.names import QUEUE_OF, TASK_ANSWER_TASK

SIGNATURE_HEADER: Final = "roboco_signature"
"""The header with the signature."""
SIGNATURE_LIFETIME: Final = 7 * 86_400
"""Seconds for which a signature is valid."""
MAX_CLOCK_SKEW: Final = 600
"""Seconds by which a sender's clock may be fast."""
_SIGNED_HEADERS = ("task", "id", "eta", "expires", "timelimit")


class SigningKeys:
    """The keys of messages: the first one signs, and all of them are accepted, so that keys can be rotated."""

    def __init__(self, keys: tuple[str, ...]) -> None:
        self._keys = tuple(key.encode() for key in keys)

    def __bool__(self) -> bool:
        return bool(self._keys)

    def sign(self, headers: MutableMapping[str, Any], body: bytes) -> None:
        """Add the signature to the headers, if there are keys."""
        if self._keys:
            now = int(time.time())
            headers[SIGNATURE_HEADER] = f"{now}:{_hmac_of(self._keys[0], now, headers, body)}"

    def signature_error(self, headers: Mapping[str, Any], body: bytes) -> str | None:
        """Return why the message is not authentic, or None if it is, or if there are no keys."""
        if not self._keys or headers.get("task") == TASK_ANSWER_TASK:
            return None
        sent, _, made = str(headers.get(SIGNATURE_HEADER, "")).partition(":")
        if not made or not (sent.isascii() and sent.isdigit() and len(sent) <= 15):
            found = f"header {SIGNATURE_HEADER!r} is {headers.get(SIGNATURE_HEADER)!r:.80}"
            return f"not signed: {found}, expected one made with a key of ROBOCO_SIGNING_KEYS"
        right = (_hmac_of(key, int(sent), headers, body) for key in self._keys)
        if not any(hmac.compare_digest(made.encode(), one.encode()) for one in right):
            return "signed with no key of ROBOCO_SIGNING_KEYS, or changed since"
        age = time.time() - int(sent)
        if not -MAX_CLOCK_SKEW <= age <= SIGNATURE_LIFETIME:
            valid = f"a signature is valid for {SIGNATURE_LIFETIME} s, and a clock may be {MAX_CLOCK_SKEW} s fast"
            return f"signed {age:.0f} s ago: {valid}"
        return None


def sign_messages(app: Celery, keys: SigningKeys) -> None:
    """Have the application sign its messages to Roboco. It sends other Celery tasks unchanged."""
    amqp: Any = app.amqp
    send: Callable[..., Any] = amqp.send_task_message

    def signed(producer: Any, name: str, message: Any, **options: Any) -> Any:
        if name in QUEUE_OF:
            headers = {**message.headers, **(options.get("headers") or {})}
            _, _, body = dumps(message.body, serializer=options.get("serializer") or app.conf.task_serializer)
            keys.sign(headers, as_bytes(body))
            options["headers"] = headers
        return send(producer, name, message, **options)

    if keys:
        amqp.send_task_message = signed


def as_bytes(body: bytes | str) -> bytes:
    """Return the body in the bytes in which it is sent."""
    return body if isinstance(body, bytes) else body.encode("utf-8", "surrogatepass")


def _hmac_of(key: bytes, sent: int, headers: Mapping[str, Any], body: bytes) -> str:
    covered = json.dumps([sent, *(headers.get(name) for name in _SIGNED_HEADERS)], separators=(",", ":"))
    return hmac.new(key, covered.encode() + b"\n" + body, hashlib.sha256).hexdigest()
