"""validation_error: checks of headers and bodies that Celery accepts unchecked, and that a worker must refuse."""

import math
from collections.abc import Callable, Container, Mapping
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any, Final

from kombu.message import Message

from roboco.broker.message_signing import SigningKeys, as_bytes
from roboco.broker.names import TASK_ANSWER_TASK
from roboco.domain.canonical_json import MAX_DEPTH

REFUSED_HEADER: Final = "roboco_refused"
"""The header of a message in place of one that the transport could not read: the reason."""
MAX_BODY_BYTES: Final = 64 * 1024 * 1024
"""Bytes of a body that are read."""
MAX_ANSWER_BYTES: Final = 32 * 1024 * 1024
"""Bytes of the body of an answer, which has no signature: twice its largest result, since Celery escapes characters."""
MAX_VALUES: Final = 4_000_000
"""Values in a body: in memory each takes up to forty times as much as in JSON."""
MAX_BODY_DEPTH: Final = MAX_DEPTH + 16
"""The deepest nesting of a body. The limit of arguments is lower, so that their check can answer the sender."""
MAX_HEADER_DEPTH: Final = 16
"""The deepest nesting of headers and properties."""
MAX_ID_CHARS: Final = 255
"""Characters of an id at most: it is part of keys and logs."""
MAX_HEADER_CHARS: Final = 64 * 1024
"""Characters of a header or a property."""
MAX_ETA_AHEAD: Final = timedelta(hours=1)
"""How far ahead `eta` may be: until then workers hold the message, and redeliver it to one another."""
MAX_TIME_LIMIT: Final = 7 * 86_400
"""Seconds of a time limit."""
MAX_COUNT: Final = 1_000_000
"""The largest count in a header."""
_EARLIEST: Final = datetime(2000, 1, 1, tzinfo=UTC)
_LATEST: Final = datetime(9000, 1, 1, tzinfo=UTC)


def validation_error(message: Message, known: Container[object], keys: SigningKeys) -> str | None:
    """Return why a worker with the `known` Celery tasks must not run `message`, or None if it may."""
    return (
        _refusal(message.headers)
        or header_error(message.headers)
        or _protocol_error(message)
        or _task_error(message.headers, known)
        or content_error(message.content_type, message.content_encoding, message.headers)
        or size_error(message.body or "")
        or _answer_error(message)
        or keys.signature_error(message.headers, as_bytes(message.body or ""))
        or _body_error(message)
    )


def _refusal(headers: Mapping[str, Any]) -> str | None:
    match headers.get(REFUSED_HEADER):
        case str() as reason if reason.isprintable():
            return reason
        case None:
            return None
        case found:  # a sender's own: it is no reason for a log
            return f"header {REFUSED_HEADER!r} is {found!r:.80}, which only workers set"


def needs_newer_worker(reason: str) -> bool:
    """Return True if a worker of another release may be able to run the message, which is then kept whole."""
    return reason.startswith(_UNKNOWN)


_UNKNOWN: Final = "this worker has no Celery task"


def content_error(content_type: object, encoding: object, headers: Mapping[str, Any]) -> str | None:
    """Return why the body must not be read, or None. Workers read uncompressed JSON in UTF-8 only."""
    if content_type != "application/json":
        return f"content-type is {content_type!r:.80}, expected 'application/json'"
    if not (encoding is None or (isinstance(encoding, str) and encoding.lower() in ("utf-8", "utf8"))):
        return f"content-encoding is {encoding!r:.80}, expected 'utf-8'"
    if packed := headers.get("compression"):
        return f"header 'compression' is {packed!r:.80}: compressed messages are not read; send it uncompressed"
    return None


def json_error(value: object) -> str | None:
    """Return why the value is not JSON in UTF-8, or nests too deeply, or None if it is valid."""
    level = [value]
    for _ in range(MAX_HEADER_DEPTH):
        inner: list[object] = []
        for one in level:
            if type(one) is str and one.isascii() and len(one) <= MAX_HEADER_CHARS:
                continue  # most values: the check of all is a hundredth of a turn's processor time
            if found := _scalar_error(one):
                return found
            if isinstance(one, dict):
                inner += (*one, *one.values())
            elif isinstance(one, list):
                inner += one
        if not inner:
            return None
        level = inner
    return f"values nested deeper than {MAX_HEADER_DEPTH} levels"


_TYPED: Final = {"__type__", "__value__"}
"""The keys of an object that kombu decodes to a date, a UUID or bytes, or raises an error for."""


def _scalar_error(value: object) -> str | None:
    match value:
        case str():
            return _text_error(value)
        case float():
            return None if math.isfinite(value) else f"{value}, which is not a JSON number"
        case dict() if value.keys() == _TYPED:
            return f"a value in kombu's own encoding, {value!r:.80}; send it as a text"
        case None | bool() | int() | dict() | list():
            return None
        case _:
            return f"a {type(value).__name__}, which is not a JSON value"


def _text_error(text: str) -> str | None:
    if len(text) > MAX_HEADER_CHARS:
        return f"a text of {len(text)} characters, at most {MAX_HEADER_CHARS} are possible"
    try:
        text.encode()
    except UnicodeEncodeError:
        return "a lone surrogate, which is not a character"
    return None


def header_error(headers: Mapping[str, Any]) -> str | None:
    """Return why a worker must refuse the headers, or None: its main process uses them unchecked."""
    if found := json_error(headers):
        return f"a header holds {found}"
    if sent := [name for name in _SENDING_HEADERS if headers.get(name)]:
        return f"header {sent[0]!r} would make the worker send messages with its own rights; leave it out"
    return _header_type_error(headers) or _time_limit_error(headers) or _stamp_error(headers) or _time_error(headers)


def _header_type_error(headers: Mapping[str, Any]) -> str | None:
    for name, (fits, expected) in _HEADER_TYPES.items():
        if (value := headers.get(name)) is not None and not fits(value):
            return f"header {name!r} is {value!r:.80}, expected {expected}"
    return None


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value <= MAX_COUNT


def _is_amount(value: object, maximum: float) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= maximum


_SENDING_HEADERS: Final = ("callbacks", "errbacks", "chain", "chord")
_TEXTS: Final = ("root_id", "parent_id", "group", "lang", "origin", "shadow", "argsrepr", "kwargsrepr", "meth")
_HEADER_TYPES: Final[Mapping[str, tuple[Callable[[object], bool], str]]] = MappingProxyType(
    dict.fromkeys((*_TEXTS, "eta", "expires"), (lambda value: isinstance(value, str), "a text"))
    | dict.fromkeys(("retries", "group_index", "replaced_task_nesting"), (_is_count, f"a number from 0 to {MAX_COUNT}"))
    | dict.fromkeys(("ignore_result", "redelivered"), (lambda value: isinstance(value, bool), "true or false"))
    | {"roboco_sent_at": (lambda value: _is_amount(value, 1e11), "Unix seconds")}
)


def _time_limit_error(headers: Mapping[str, Any]) -> str | None:
    match headers.get("timelimit"):
        case None:
            return None
        case [_, _] as limits if all(one is None or (one != 0 and _is_amount(one, MAX_TIME_LIMIT)) for one in limits):
            return None
        case found:
            return f"header 'timelimit' is {found!r:.80}, expected two numbers or nulls, up to {MAX_TIME_LIMIT} seconds"


def _stamp_error(headers: Mapping[str, Any]) -> str | None:
    names, stamps = headers.get("stamped_headers") or [], headers.get("stamps") or {}
    if not (isinstance(names, list) and all(isinstance(name, str) for name in names)):
        return f"header 'stamped_headers' is {names!r:.80}, expected a list of names"
    if not isinstance(stamps, dict):
        return f"header 'stamps' is {stamps!r:.80}, expected an object"
    return None


def _time_error(headers: Mapping[str, Any]) -> str | None:
    for name in ("eta", "expires"):
        text = headers.get(name)
        if text is None:
            continue
        try:
            time = datetime.fromisoformat(text)
        except ValueError as error:
            return f"header {name!r} is {text!r:.80}: {str(error)[:80]}"
        time = time if time.tzinfo else time.replace(tzinfo=UTC)
        latest = datetime.now(UTC) + MAX_ETA_AHEAD if name == "eta" else _LATEST
        if not _EARLIEST <= time <= latest:
            return f"header {name!r} is {text!r:.80}, expected a time from {_EARLIEST} to {latest}"
    return None


def _protocol_error(message: Message) -> str | None:
    """Return the remedy if the message is of protocol 1, which names the Celery task in the body; else None."""
    headers, body = message.headers, as_bytes(message.body or "")
    unreadable = content_error(message.content_type, message.content_encoding, headers) or _amount_error(body)
    if headers.get("task") is not None or unreadable is not None:
        return None
    try:
        payload = message.payload
    except Exception:
        return None
    match payload:
        case {"task": str(task)}:
            return (
                f"the message for {task!r:.80} is of Celery's protocol 1, but workers read protocol 2 only: set "
                "task_protocol = 2 in the producer (celery-node: client.conf.TASK_PROTOCOL = 2) and send it again"
            )
        case _:
            return None


def _task_error(headers: Mapping[str, Any], known: Container[object]) -> str | None:
    match headers:
        case {"task": str(task)} if task not in known:
            return f"{_UNKNOWN} {task!r:.300}; deploy workers before the services that send to them"
        case {"task": str(), "id": str(ident)} if ident and len(ident) <= MAX_ID_CHARS and ident.isprintable():
            return None
        case {"task": str()}:
            expected = f"a text of up to {MAX_ID_CHARS} printable characters"
            return f"header 'id' is {headers.get('id')!r:.80}, expected {expected}"
        case _:
            return f"header 'task' is {headers.get('task')!r:.80}, expected the name of a Celery task"


def size_error(body: bytes | str) -> str | None:
    """Return why the body is too large to be read, or None if it is not."""
    if len(body) > MAX_BODY_BYTES:
        return f"body has {len(body)} bytes, at most {MAX_BODY_BYTES} are possible"
    return None


def _answer_error(message: Message) -> str | None:
    """Return why the answer of a shop's Celery task must be refused, or None: anyone may send one."""
    headers: Mapping[str, Any] = message.headers
    if headers.get("task") != TASK_ANSWER_TASK:
        return None
    if timed := [name for name in ("eta", "expires", "timelimit") if headers.get(name) not in (None, [None, None])]:
        return f"header {timed[0]!r} is not for {TASK_ANSWER_TASK}, whose messages have no signature; leave it out"
    if (size := len(message.body or "")) > MAX_ANSWER_BYTES:
        return f"body has {size} bytes, at most {MAX_ANSWER_BYTES} are possible for an answer"
    return None


def _amount_error(body: bytes) -> str | None:
    """Return why the body must not be decoded, or None if it may."""
    if too_large := size_error(body):
        return too_large
    if sum(map(body.count, (b",", b"[", b"{"))) > MAX_VALUES:
        return f"body may hold more than {MAX_VALUES} values"
    return None


def _body_error(message: Message) -> str | None:
    if too_much := _amount_error(as_bytes(message.body or "")):
        return too_much
    try:
        payload = message.payload
    except Exception as error:
        return f"body cannot be read: {str(error)[:300]}"
    match payload:
        case [list(), dict(), dict() | None as options]:
            return _options_error(options or {}) or _depth_error(payload)
        case _:
            return f"body is a {type(payload).__name__}, expected [args, kwargs, options]"


def _options_error(options: Mapping[str, Any]) -> str | None:
    """Return why the options must be refused, or None: a worker would send their messages with its own rights."""
    named = sorted(str(name) for name, value in options.items() if value)
    if named:
        return f"body has the option {named[0]!r:.40}: workers send no further messages of a canvas; leave it out"
    return None


def _depth_error(payload: list[Any]) -> str | None:
    level: list[Any] = [payload]
    for _ in range(MAX_BODY_DEPTH):
        level = [
            inner
            for one in level
            if isinstance(one, list | dict)
            for inner in (one.values() if isinstance(one, dict) else one)
        ]
        if not level:
            return None
    return f"body is nested deeper than {MAX_BODY_DEPTH} levels"
