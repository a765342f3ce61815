"""Signatures of Celery messages: who can write to the broker, but has no key, cannot have workers act.

The header `roboco_signature` is TIME:HEX, where TIME is in whole Unix seconds, and HEX the HMAC-SHA256 of

    [TIME,"task","id",eta,expires,timelimit]    as JSON without spaces: headers of the message, or null
    body                                        on the next line, as it is sent

Other headers are only shown or measured, and not covered. A copy of a message is believed for a week: what Roboco is
sent twice has the effect of once, as long as the task's workspace is there.
"""

import hashlib
import hmac
import json
import time
from collections.abc import Callable, Mapping, MutableMapping
from typing import Any, Final

from celery import Celery
from kombu.serialization import dumps

from roboco.adapters.celery.names import QUEUE_OF

SIGNATURE: Final = "roboco_signature"
"""The header with the signature."""
LONGEST: Final = 7 * 86_400
"""Seconds for which a signature holds."""
AHEAD: Final = 600
"""Seconds that a sender's clock may be fast."""
_COVERED = ("task", "id", "eta", "expires", "timelimit")


class MessageKeys:
    """The keys of messages: the first one signs, all of them are believed, so that a new one can take over."""

    def __init__(self, keys: tuple[str, ...]) -> None:
        self._keys = tuple(key.encode() for key in keys)

    def __bool__(self) -> bool:
        return bool(self._keys)

    def sign(self, headers: MutableMapping[str, Any], body: bytes) -> None:
        """Give the message its signature; without keys it gets none."""
        if self._keys:
            now = int(time.time())
            headers[SIGNATURE] = f"{now}:{_made(self._keys[0], now, headers, body)}"

    def flaw(self, headers: Mapping[str, Any], body: bytes) -> str | None:
        """Why the message is not to be believed; None where it is, or where there are no keys."""
        if not self._keys:
            return None
        sent, _, made = str(headers.get(SIGNATURE, "")).partition(":")
        if not made or not (sent.isascii() and sent.isdigit() and len(sent) <= 15):
            found = f"header {SIGNATURE!r} is {headers.get(SIGNATURE)!r:.80}"
            return f"not signed: {found}, expected one made with a key of ROBOCO_SIGNING_KEYS"
        right = (_made(key, int(sent), headers, body) for key in self._keys)
        if not any(hmac.compare_digest(made.encode(), one.encode()) for one in right):
            return "signed with no key of ROBOCO_SIGNING_KEYS, or changed since"
        age = time.time() - int(sent)
        if not -AHEAD <= age <= LONGEST:
            return f"signed {age:.0f} s ago: a signature holds for {LONGEST} s, and a clock may be {AHEAD} s fast"
        return None


def sign_messages(app: Celery, keys: MessageKeys) -> None:
    """Have the application sign what it sends to Roboco; other Celery tasks go out as they are."""
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
    """The body as it is sent."""
    return body if isinstance(body, bytes) else body.encode("utf-8", "surrogatepass")


def _made(key: bytes, sent: int, headers: Mapping[str, Any], body: bytes) -> str:
    covered = json.dumps([sent, *(headers.get(name) for name in _COVERED)], separators=(",", ":"))
    return hmac.new(key, covered.encode() + b"\n" + body, hashlib.sha256).hexdigest()
