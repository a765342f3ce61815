"""Dead letters of Celery messages, of bounded size for any message."""

import hashlib
import json
from datetime import UTC, datetime
from itertools import islice
from typing import Any, Final

from kombu.message import Message
from kombu.utils import json as kombu_json

from roboco.broker.message_reader import MAX_UNREADABLE_BYTES, REFUSED_HEADER, needs_newer_worker
from roboco.broker.message_signing import as_bytes
from roboco.domain.canonical_json import canonical_json, well_formed, well_formed_json
from roboco.domain.dead_letter import DeadLetter, letter_id_of

MAX_BODY_BYTES: Final = 1024 * 1024
"""Bytes that a record keeps of a body that a worker of another release may be able to read."""
MAX_HEADER_CHARS: Final = 256
"""Characters of JSON that are kept of a header."""
MAX_HEADERS: Final = 40
"""Headers that are kept at most: Celery sends about 20."""
MAX_REASON_CHARS: Final = 512
"""Characters that are kept of the reason of a refused message."""
MAX_TASK_REASON_CHARS: Final = 2000
"""Characters that are kept of the reason for which a Celery task failed."""
DISPLAY_HEADERS: Final = frozenset({"argsrepr", "kwargsrepr"})
"""Headers that only displays need."""


def letter_of_message(message: Message, reason: str) -> DeadLetter:
    """Return the dead letter of a message that kombu has read, and that the worker refuses."""
    queue = str(message.delivery_info.get("routing_key"))
    raw, headers = as_bytes(message.body or ""), message.headers
    body = raw[: MAX_BODY_BYTES if needs_newer_worker(reason) else MAX_UNREADABLE_BYTES].decode("utf-8", "replace")
    kept = {
        well_formed(str(name)[:MAX_HEADER_CHARS]): _truncate(value)
        for name, value in islice(headers.items(), MAX_HEADERS)
    }
    needed = {name: value for name, value in headers.items() if name not in DISPLAY_HEADERS}
    whole = body.encode() == raw and all(kept.get(name) == needed[name] for name in needed)
    digest = hashlib.sha256(raw).hexdigest()
    return DeadLetter(
        letter_id=letter_id_of(queue, _identity(message), digest),
        reason=well_formed(reason[:MAX_REASON_CHARS]),
        time=datetime.now(UTC),
        queue=well_formed(queue[:MAX_HEADER_CHARS]),
        headers=kept,
        body=body,
        content_type=str(message.content_type or "application/json")[:MAX_HEADER_CHARS],
        content_encoding=str(message.content_encoding or "utf-8")[:MAX_HEADER_CHARS],
        truncated=not whole or REFUSED_HEADER in headers,
        size=len(raw),
        digest=digest,
    )


def letter_of_body(message: Message, reason: str) -> DeadLetter:
    """Return a dead letter with the body of the message alone. It cannot be requeued."""
    raw, queue = as_bytes(message.body or ""), str(message.delivery_info.get("routing_key"))
    digest = hashlib.sha256(raw).hexdigest()
    return DeadLetter(
        letter_id=letter_id_of(queue, digest),
        reason=well_formed(reason[:MAX_REASON_CHARS]),
        time=datetime.now(UTC),
        queue=well_formed(queue[:MAX_HEADER_CHARS]),
        body=raw[:MAX_UNREADABLE_BYTES].decode("utf-8", "replace"),
        truncated=True,
        size=len(raw),
        digest=digest,
    )


def dead_letter_of(
    request: Any, queue: str, reason: str, attempts: int, time: datetime, with_body: bool = True
) -> DeadLetter:
    """Return the dead letter of a received Celery task. A repetition of the message has the same letter id.

    Without a body it needs no memory for the content of the message: its size is 0 then, and it counts as truncated.
    """
    content = [list(request.args or ()), dict(request.kwargs or {}), {}] if with_body else None
    body = b"" if content is None else kombu_json.dumps(content).encode()
    return DeadLetter(
        letter_id=letter_id_of(str(request.id), str(request.get("roboco_requeued", ""))),
        reason=well_formed(reason)[:MAX_TASK_REASON_CHARS],
        time=time,
        attempts=attempts,
        queue=queue,
        headers={"task": request.task, "id": request.id},
        body=body[:MAX_BODY_BYTES].decode("utf-8", "replace"),
        truncated=not with_body or len(body) > MAX_BODY_BYTES,
        size=len(body),
        digest=hashlib.sha256(body).hexdigest(),
    )


def _identity(message: Message) -> str:
    """Return a text that is the same at each delivery of the message: without delivery tag and redelivery flag."""
    headers = {name: value for name, value in message.headers.items() if name != "redelivered"}
    known = ("correlation_id", "reply_to", "priority", "message_id", "timestamp")
    properties = {name: message.properties.get(name) for name in known}
    return json.dumps([headers, properties], default=str, sort_keys=True)


def _truncate(value: object) -> object:
    """Return the value as JSON, or the beginning of its text if that is long or not JSON."""
    try:
        clean = well_formed_json(value)
        text = canonical_json(clean)
    except (ValueError, TypeError, RecursionError):
        return ascii(value)[:MAX_HEADER_CHARS]
    return clean if clean == value and len(text) <= MAX_HEADER_CHARS else text[:MAX_HEADER_CHARS]
