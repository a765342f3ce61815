"""message_reader: the strict reader of Celery's messages, which any producer may have written.

    list of Redis ── read_envelope ──► kombu's Message ─┐
    RabbitMQ ────────────────────────► kombu's Message ─┴─ validation_error ──► Celery's request, or a dead letter
    channel of Redis ── read_broadcast ──► remote control, or dropped

Kombu and Celery use fields that they do not check: most of those that they cannot use crash the worker. Kombu also
unpacks compressed messages while it reads them. So this module checks the size, then the JSON, then each field.
"""

import base64
import binascii
import hashlib
import json
import math
import re
from collections.abc import Container, Mapping
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final, Literal

from kombu.message import Message
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from roboco.broker.message_signing import SigningKeys, as_bytes
from roboco.broker.names import TASK_ANSWER_TASK
from roboco.domain.canonical_json import MAX_DEPTH

REFUSED_HEADER: Final = "roboco_refused"
"""The header of a message in place of one that the transport could not read: the reason."""
MAX_BODY_BYTES: Final = 64 * 1024 * 1024
"""Bytes of a body that are read."""
MAX_ANSWER_BYTES: Final = 32 * 1024 * 1024
"""Bytes of the body of an answer, which has no signature: twice its largest result, since Celery escapes characters."""
MAX_REST_BYTES: Final = 256 * 1024
"""Bytes of an envelope without its body."""
MAX_ENVELOPE_BYTES: Final = MAX_BODY_BYTES // 3 * 4 + MAX_REST_BYTES
"""Bytes of an envelope: base64 makes four bytes of three."""
MAX_UNREADABLE_BYTES: Final = 16 * 1024
"""Bytes that are kept of a message that no worker can read."""
MAX_COMMAND_BYTES: Final = 64 * 1024
"""Bytes of a message of remote control."""
MAX_VALUES: Final = 4_000_000
"""Values in a body: in memory each takes up to forty times as much as in JSON."""
MAX_BODY_DEPTH: Final = MAX_DEPTH + 16
"""The deepest nesting of a body. The limit of arguments is lower, so that their check can answer the sender."""
MAX_HEADER_DEPTH: Final = 16
"""The deepest nesting of headers and properties."""
MAX_HEADER_CHARS: Final = 64 * 1024
"""Characters of a header or a property."""
MAX_ETA_AHEAD: Final = timedelta(hours=1)
"""How far ahead `eta` may be: until then workers hold the message, and redeliver it to one another."""
MAX_TIME_LIMIT: Final = 7 * 86_400
"""Seconds of a time limit."""
CONTROL_EXCHANGE: Final = "celery.pidbox"
"""The exchange of remote control. With the prefix 'reply.' it is the exchange of the replies."""
_EARLIEST: Final = datetime(2000, 1, 1, tzinfo=UTC)
_LATEST: Final = datetime(9000, 1, 1, tzinfo=UTC)
_UNKNOWN: Final = "this worker has no Celery task"


class UnreadableError(ValueError):
    """The message cannot be read or run, for this reason."""


def _check_printable(text: str) -> str:
    if not text.isprintable():
        raise ValueError("it has characters that cannot be printed")
    return text


def _check_eta(text: str) -> str:
    return _check_time(text, datetime.now(UTC) + MAX_ETA_AHEAD)


def _check_expiry(text: str) -> str:
    return _check_time(text, _LATEST)


def _check_time(text: str, latest: datetime) -> str:
    time = datetime.fromisoformat(text)
    if not _EARLIEST <= (time if time.tzinfo else time.replace(tzinfo=UTC)) <= latest:
        raise ValueError(f"expected a time from {_EARLIEST} to {latest}")
    return text


_Name = Annotated[str, Field(min_length=1, max_length=255), AfterValidator(_check_printable)]
"""A name or an id, which keys and logs hold."""
_Count = Annotated[int, Field(ge=0, le=1_000_000)]
_Seconds = Annotated[float, Field(gt=0, le=MAX_TIME_LIMIT)]


class _Part(BaseModel):
    """A part of a message: its fields that kombu or Celery use."""

    model_config = ConfigDict(strict=True, allow_inf_nan=False)


class _Headers(_Part):
    task: str
    id: _Name
    root_id: str | None = None
    parent_id: str | None = None
    group: str | None = None
    lang: str | None = None
    origin: str | None = None
    shadow: str | None = None
    argsrepr: str | None = None
    kwargsrepr: str | None = None
    meth: str | None = None
    retries: _Count | None = None
    group_index: _Count | None = None
    replaced_task_nesting: _Count | None = None
    ignore_result: bool | None = None
    redelivered: bool | None = None
    timelimit: Annotated[list[_Seconds | None], Field(min_length=2, max_length=2)] | None = None
    stamped_headers: Annotated[list[str], Field(fail_fast=True)] | None = None
    stamps: dict[str, Any] | None = None
    eta: Annotated[str, AfterValidator(_check_eta)] | None = None
    expires: Annotated[str, AfterValidator(_check_expiry)] | None = None
    roboco_sent_at: Annotated[float, Field(ge=0, le=1e11)] | None = None


_SENDING_HEADERS: Final = ("callbacks", "errbacks", "chain", "chord")
"""The headers that would make a worker send messages with its own rights."""


class _Properties(_Part):
    delivery_tag: _Name
    reply_to: _Name | None = None
    correlation_id: _Name | None = None
    priority: Annotated[int, Field(ge=0, le=255)] | None = None
    body_encoding: Literal["base64", "utf-8"] | None = None
    delivery_info: dict[str, Any] = {}


class _Envelope(_Part):
    body: str
    headers: dict[str, Any]
    properties: _Properties


def _check_absent(text: str) -> str:
    if text:
        raise ValueError("patterns are not obeyed: name the workers in 'destination'")
    return text


_NoPattern = Annotated[str, AfterValidator(_check_absent)]


class _ReplyTo(_Part):
    exchange: Literal["reply.celery.pidbox"]
    routing_key: _Name


class _Command(_Part):
    """A command of remote control. A sender's `pattern` could block a worker's main loop for ever."""

    model_config = ConfigDict(extra="forbid")

    method: str
    arguments: dict[str, Any] | None = None
    destination: Annotated[list[_Name], Field(fail_fast=True)] | None = None
    pattern: _NoPattern | None = None
    matcher: _NoPattern | None = None
    ticket: _Name | None = None
    reply_to: _ReplyTo | None = None


class _ControlHeaders(_Part):
    clock: Annotated[int, Field(ge=0, le=2**53)] | None = None
    """The logical clock: a larger one would stay in every message that the worker sends."""


def _check_fields(model: type[_Part], value: object, kind: str = "") -> None:
    """Raise UnreadableError with the first wrong field."""
    try:
        model.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        place, found = ".".join(map(str, first["loc"])), None if first["type"] == "missing" else first["input"]
        wrong = "expected an object" if first["type"] == "model_type" else first["msg"][:200]
        raise UnreadableError(f"{kind}{f'{place!r:.80} ' if place else ''}is {found!r:.80}: {wrong}") from None


def read_envelope(raw: bytes, queue: str) -> dict[str, Any]:
    """Return the message in a form that is safe for kombu. An unreadable one becomes a message with REFUSED_HEADER.

    The message names `queue` as its origin, whatever its sender wrote. Otherwise a worker could requeue it into a queue
    to which its sender has no permission to write.
    """
    try:
        return _checked_envelope(raw, queue)
    except UnreadableError as error:
        reason = str(error)
    if len(raw) > MAX_UNREADABLE_BYTES:
        reason += f"; here are {MAX_UNREADABLE_BYTES} of {len(raw)} bytes, SHA-256 {hashlib.sha256(raw).hexdigest()}"
    return {
        "body": base64.b64encode(raw[:MAX_UNREADABLE_BYTES]).decode(),
        "content-type": "application/json",
        "content-encoding": "utf-8",
        "headers": _readable_headers(raw) | {REFUSED_HEADER: reason},
        "properties": {"body_encoding": "base64", "delivery_info": {"exchange": "", "routing_key": queue}},
    }


def _readable_headers(raw: bytes) -> dict[str, Any]:
    """Return the headers of an unreadable message, as far as they can be read."""
    try:
        found = json.loads(raw)["headers"] if len(raw) <= MAX_REST_BYTES else {}
        _check_json(found)
        return {name: value for name, value in found.items() if name != "compression"}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}


def read_broadcast(raw: bytes, exchange: str) -> dict[str, Any]:
    """Return the message published on a channel in a form that is safe for kombu, or raise UnreadableError."""
    read = _checked_envelope(raw, exchange)
    if exchange == CONTROL_EXCHANGE:
        command = _body_of(read["body"], read["properties"]["body_encoding"])
        _check_fields(_Command, _parse(command, MAX_COMMAND_BYTES, MAX_COMMAND_BYTES), "command: ")
        _check_fields(_ControlHeaders, read["headers"], "header ")
    return read


def _checked_envelope(raw: bytes, queue: str) -> dict[str, Any]:
    whole = _parse(raw, MAX_ENVELOPE_BYTES, MAX_REST_BYTES)
    _check_fields(_Envelope, whole)
    headers, properties = whole["headers"], whole["properties"]
    for part in (headers, properties):
        _check_json(part)
    _check_content(whole.get("content-type"), whole.get("content-encoding"), headers)
    encoding = properties.get("body_encoding")
    _body_of(whole["body"], encoding)
    again = {"redelivered": True} if properties.get("delivery_info", {}).get("redelivered") else {}
    info = {"exchange": "", "routing_key": queue} | again
    return {
        "body": whole["body"],
        "content-type": "application/json",
        "content-encoding": "utf-8",
        "headers": headers,
        "properties": properties | {"body_encoding": encoding, "delivery_info": info},
    }


_TEXTS: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)  # also one without an end: each byte is read once


def _parse(raw: bytes, max_bytes: int, max_rest_bytes: int) -> Any:
    if len(raw) > max_bytes:
        raise UnreadableError(f"has {len(raw)} bytes, at most {max_bytes} are possible")
    if len(raw) > max_rest_bytes and (rest := _count_rest(raw, max_rest_bytes)) > max_rest_bytes:
        raise UnreadableError(f"has {rest} bytes or more beside its body, at most {max_rest_bytes} are possible")
    try:
        return _DECODER.decode(raw.decode())
    except RecursionError:
        raise UnreadableError("is nested too deeply") from None
    except ValueError as error:
        raise UnreadableError(f"is no JSON in UTF-8: {str(error)[:200]}") from None


def _count_rest(raw: bytes, max_bytes: int) -> int:
    """Return the bytes beside the longest text, or a number above `max_bytes` if there are more than that."""
    longest = 0
    for text in _TEXTS.finditer(raw):
        longest = max(longest, text.end() - text.start())
        if text.end() - longest > max_bytes:
            return text.end() - longest
    return len(raw) - longest


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key is repeated")
    return found


def _reject_constant(text: str) -> Any:
    raise ValueError(f"{text} is no number of JSON")


_DECODER: Final = json.JSONDecoder(object_pairs_hook=_unique_keys, parse_constant=_reject_constant)


def _body_of(body: str, encoding: str | None) -> bytes:
    try:
        return base64.b64decode(body) if encoding == "base64" else body.encode()
    except (binascii.Error, ValueError) as error:
        raise UnreadableError(f"'body' cannot be read: {error}") from None


def _check_json(part: object) -> None:
    """Raise UnreadableError unless the headers or properties are JSON in UTF-8 that does not nest too deeply."""
    level = [part]
    for _ in range(MAX_HEADER_DEPTH):
        inner: list[object] = []
        for one in level:
            if type(one) is str and one.isascii() and len(one) <= MAX_HEADER_CHARS:
                continue  # most values: the check of all is a hundredth of a turn's processor time
            if found := _scalar_error(one):
                raise UnreadableError(f"a header or property holds {found}")
            if isinstance(one, dict):
                inner += (*one, *one.values())
            elif isinstance(one, list):
                inner += one
        if not inner:
            return
        level = inner
    raise UnreadableError(f"a header or property nests deeper than {MAX_HEADER_DEPTH} levels")


_TYPED: Final = {"__type__", "__value__"}
"""The keys of an object that kombu decodes to a date, a UUID or bytes, or raises an error for."""


def _scalar_error(value: object) -> str | None:
    match value:
        case str() if len(value) > MAX_HEADER_CHARS:
            return f"a text of {len(value)} characters, at most {MAX_HEADER_CHARS} are possible"
        case str() if any("\ud800" <= char <= "\udfff" for char in value):
            return "a lone surrogate, which is not a character"
        case float() if not math.isfinite(value):
            return f"{value}, which is not a JSON number"
        case dict() if value.keys() == _TYPED:
            return f"a value in kombu's own encoding, {value!r:.80}; send it as a text"
        case None | str() | bool() | int() | float() | dict() | list():
            return None
        case _:
            return f"a {type(value).__name__}, which is not a JSON value"


def _check_content(content_type: object, encoding: object, headers: Mapping[str, Any]) -> None:
    """Raise UnreadableError if the body must not be read. Workers read uncompressed JSON in UTF-8 only."""
    if content_type != "application/json":
        raise UnreadableError(f"content-type is {content_type!r:.80}, expected 'application/json'")
    if not (encoding is None or (isinstance(encoding, str) and encoding.lower() in ("utf-8", "utf8"))):
        raise UnreadableError(f"content-encoding is {encoding!r:.80}, expected 'utf-8'")
    check_compression(headers)


def check_compression(headers: Mapping[str, Any]) -> None:
    """Raise UnreadableError if the message is compressed."""
    if packed := headers.get("compression"):
        raise UnreadableError(
            f"header 'compression' is {packed!r:.80}: compressed messages are not read; send it uncompressed"
        )


def validation_error(message: Message, known: Container[object], keys: SigningKeys) -> str | None:
    """Return why a worker with the `known` Celery tasks must not run `message`, or None if it may."""
    try:
        _check_message(message, known, keys)
    except UnreadableError as error:
        return str(error)
    return None


def needs_newer_worker(reason: str) -> bool:
    """Return True if a worker of another release may be able to run the message, which is then kept whole."""
    return reason.startswith(_UNKNOWN)


def _check_message(message: Message, known: Container[object], keys: SigningKeys) -> None:
    headers: Mapping[str, Any] = message.headers
    if (refused := headers.get(REFUSED_HEADER)) is not None:
        named = isinstance(refused, str) and refused != "" and refused.isprintable()  # else it is a sender's own
        raise UnreadableError(refused if named else f"header {REFUSED_HEADER!r} is {refused!r:.80}")
    _check_headers(message, known)
    _check_amount(message)
    body = as_bytes(message.body or "")
    if headers["task"] == TASK_ANSWER_TASK:
        _check_answer(headers, body)
    if wrong := keys.signature_error(headers, body):
        raise UnreadableError(wrong)
    _check_payload(_payload_of(message))


def _check_headers(message: Message, known: Container[object]) -> None:
    headers: Mapping[str, Any] = message.headers
    _check_json(headers)
    if sent := [name for name in _SENDING_HEADERS if headers.get(name)]:
        raise UnreadableError(
            f"header {sent[0]!r} would make the worker send messages with its own rights; leave it out"
        )
    if headers.get("task") is None:
        _check_protocol(message)
    _check_fields(_Headers, headers, "header ")
    if (name := headers["task"]) not in known:
        raise UnreadableError(f"{_UNKNOWN} {name!r:.300}; deploy workers before the services that send to them")


def _check_protocol(message: Message) -> None:
    """Raise UnreadableError if the message is of protocol 1, which names the Celery task in the body."""
    _check_amount(message)
    payload = _payload_of(message)
    if isinstance(payload, dict) and isinstance(task := payload.get("task"), str):
        raise UnreadableError(
            f"the message for {task!r:.80} is of Celery's protocol 1, but workers read protocol 2 only: set "
            "task_protocol = 2 in the producer (celery-node: client.conf.TASK_PROTOCOL = 2) and send it again"
        )


def _check_answer(headers: Mapping[str, Any], body: bytes) -> None:
    """Raise UnreadableError if the answer of a shop's Celery task must be refused: anyone may send one."""
    if timed := [name for name in ("eta", "expires", "timelimit") if headers.get(name) not in (None, [None, None])]:
        raise UnreadableError(
            f"header {timed[0]!r} is not for {TASK_ANSWER_TASK}, whose messages have no signature; leave it out"
        )
    if len(body) > MAX_ANSWER_BYTES:
        raise UnreadableError(f"body has {len(body)} bytes, at most {MAX_ANSWER_BYTES} are possible for an answer")


def _check_amount(message: Message) -> None:
    """Raise UnreadableError if the body must not be decoded."""
    body = as_bytes(message.body or "")
    _check_content(message.content_type, message.content_encoding, message.headers)
    if len(body) > MAX_BODY_BYTES:
        raise UnreadableError(f"body has {len(body)} bytes, at most {MAX_BODY_BYTES} are possible")
    if sum(map(body.count, (b",", b"[", b"{"))) > MAX_VALUES:
        raise UnreadableError(f"body may hold more than {MAX_VALUES} values")


def _payload_of(message: Message) -> Any:
    try:
        return message.payload
    except Exception as error:
        raise UnreadableError(f"body cannot be read: {str(error)[:300]}") from error


def _check_payload(payload: Any) -> None:
    match payload:
        case [list(), dict(), dict() | None as options]:
            if sent := sorted(str(name) for name, value in (options or {}).items() if value):
                raise UnreadableError(
                    f"body has the option {sent[0]!r:.40}: workers send no messages of a canvas; leave it out"
                )
        case _:
            raise UnreadableError(f"body is a {type(payload).__name__}, expected [args, kwargs, options]")
    level: list[Any] = [payload]
    for _ in range(MAX_BODY_DEPTH):
        level = [
            inner
            for one in level
            if isinstance(one, list | dict)
            for inner in (one.values() if isinstance(one, dict) else one)
        ]
        if not level:
            return
    raise UnreadableError(f"body is nested deeper than {MAX_BODY_DEPTH} levels")
