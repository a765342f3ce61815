"""Dead letters of Celery messages, of bounded size for any message.

For a message that the consumer or the transport refuses, this module makes a record: the JSON of a DeadLetter. For a
message whose Celery task has begun, so that its arguments could be read, it makes the DeadLetter itself.
"""

import hashlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import islice
from typing import Any, Final

from kombu.message import Message
from kombu.utils import json as kombu_json

from roboco.adapters.celery.validation_error import later_release
from roboco.domain.canonical_json import canonical, well_formed, well_formed_json
from roboco.domain.dead_letter import DeadLetter, letter_id_of

BODY_KEPT: Final = 16 * 1024
"""Bytes that a record keeps of a body that no worker can read."""
BODY_LIMIT: Final = 1024 * 1024
"""Bytes that a record keeps of a body that a worker of another release may be able to read."""
HEADER_LIMIT: Final = 256
"""Characters of JSON that are kept of a header."""
HEADERS_LIMIT: Final = 40
"""Headers that are kept at most: Celery sends about 20."""
REASON_LIMIT: Final = 512
"""Characters that are kept of the reason of a refused message."""
TASK_REASON_LIMIT: Final = 2000
"""Characters that are kept of the reason for which a Celery task failed."""
SHOWN_ONLY: Final = frozenset({"argsrepr", "kwargsrepr"})
"""Headers that only displays need."""


def record_of(message: Message, reason: str) -> dict[str, Any]:
    """Return the record of a message that kombu has read."""
    body: Any = message.body
    raw = body if isinstance(body, bytes) else str(body).encode("utf-8", "replace")
    queue = str(message.delivery_info.get("routing_key"))
    headers: dict[str, Any] = message.headers
    most = BODY_LIMIT if later_release(reason) else BODY_KEPT
    record = _record(queue, reason, headers, raw, most)
    needed = {name: value for name, value in headers.items() if name not in SHOWN_ONLY}
    whole = record["body"].encode() == raw and all(record["headers"].get(name) == needed[name] for name in needed)
    return record | {
        "letter_id": letter_id_of(queue, _identity(message), record["digest"]),
        "content_type": str(message.content_type or "application/json")[:HEADER_LIMIT],
        "content_encoding": str(message.content_encoding or "utf-8")[:HEADER_LIMIT],
        "cut": not whole,
    }


def record_of_raw(raw: bytes, queue: str, reason: str, headers: Mapping[str, Any]) -> dict[str, Any]:
    """Return the record of bytes that no worker can read. It cannot be requeued."""
    record = _record(queue, reason, headers, raw, BODY_KEPT)
    return record | {"letter_id": letter_id_of(queue, record["digest"]), "cut": True}


def letter_of(request: Any, queue: str, reason: str, attempts: int, time: datetime) -> DeadLetter:
    """Return the dead letter of a received Celery task. A repetition of the message has the same letter id."""
    body = kombu_json.dumps([list(request.args or ()), dict(request.kwargs or {}), {}]).encode()
    return DeadLetter(
        letter_id=letter_id_of(str(request.id), str(request.get("roboco_requeued", ""))),
        reason=well_formed(reason)[:TASK_REASON_LIMIT],
        time=time,
        attempts=attempts,
        queue=queue,
        headers={"task": request.task, "id": request.id},
        body=body[:BODY_LIMIT].decode("utf-8", "replace"),
        cut=len(body) > BODY_LIMIT,
        size=len(body),
        digest=hashlib.sha256(body).hexdigest(),
    )


def _record(queue: str, reason: str, headers: Mapping[str, Any], raw: bytes, most: int) -> dict[str, Any]:
    return {
        "reason": well_formed(reason[:REASON_LIMIT]),
        "queue": well_formed(queue[:HEADER_LIMIT]),
        "headers": {
            well_formed(str(name)[:HEADER_LIMIT]): _shortened(value)
            for name, value in islice(headers.items(), HEADERS_LIMIT)
        },
        "body": raw[:most].decode("utf-8", "replace"),
        "size": len(raw),
        "digest": hashlib.sha256(raw).hexdigest(),
        "time": datetime.now(UTC).isoformat(),
    }


def _identity(message: Message) -> str:
    """Return a text that is the same at each delivery of the message: without delivery tag and redelivery flag."""
    headers = {name: value for name, value in message.headers.items() if name != "redelivered"}
    known = ("correlation_id", "reply_to", "priority", "message_id", "timestamp")
    properties = {name: message.properties.get(name) for name in known}
    return json.dumps([headers, properties], default=str, sort_keys=True)


def _shortened(value: object) -> object:
    """Return the value as JSON, or the beginning of its text if that is long or not JSON."""
    try:
        clean = well_formed_json(value)
        text = canonical(clean)
    except (ValueError, TypeError, RecursionError):
        return ascii(value)[:HEADER_LIMIT]
    return clean if clean == value and len(text) <= HEADER_LIMIT else text[:HEADER_LIMIT]
