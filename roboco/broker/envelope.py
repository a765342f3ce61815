"""The envelope of a Celery message in Redis, checked strictly before kombu makes a message of it.

Kombu does not check envelopes: most of those that it cannot read crash the worker, or kombu drops them. It also unpacks
compressed messages while it reads them. So this module checks the size, then the JSON, then each field that kombu or
Celery reads.
"""

import base64
import binascii
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from roboco.broker.message_validation import MAX_BODY_BYTES, content_error, json_error

MAX_REST_BYTES: Final = 256 * 1024
"""Bytes of an envelope without its body."""
MAX_ENVELOPE_BYTES: Final = MAX_BODY_BYTES // 3 * 4 + MAX_REST_BYTES
"""Bytes of an envelope: base64 makes four bytes of three."""
MAX_HELD_REST_BYTES: Final = 5 * MAX_REST_BYTES
"""Bytes beside the body of a message that a worker holds.

Kombu writes such a message with ASCII escapes and spaces: é, two bytes, becomes six, and 1e15 with its comma, five
bytes, becomes twenty. So the body is at most three times as long as it arrived, and the rest four times, and a little
that kombu adds.
"""
MAX_HELD_BYTES: Final = 3 * MAX_ENVELOPE_BYTES + 2 * MAX_REST_BYTES
"""Bytes of a message that a worker holds: what `read_envelope` accepts, `read_held` accepts."""
MAX_COMMAND_BYTES: Final = 64 * 1024
"""Bytes of a message of remote control."""
MAX_PROPERTY_CHARS: Final = 255
"""Characters of a property."""
MAX_CLOCK: Final = 2**53
"""The largest logical clock: a larger one would stay in every message that the worker sends."""
CONTROL_EXCHANGE: Final = "celery.pidbox"
"""The exchange of remote control. With the prefix 'reply.' it is the exchange of the replies."""
_TEXTS: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)  # also one without an end: each byte is read once
_COMMAND_FIELDS: Final = frozenset({"method", "arguments", "destination", "pattern", "matcher", "ticket", "reply_to"})


@dataclass(frozen=True)
class RefusedMessage:
    """The reason why no worker may receive a message, and its headers as far as they can be read."""

    reason: str
    headers: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class HeldMessage:
    """A message that a worker held, and its queue."""

    message: dict[str, Any]
    queue: str


class _Unreadable(ValueError):
    """The message cannot be read, for this reason."""


def read_envelope(raw: bytes, queue: str) -> dict[str, Any] | RefusedMessage:
    """Return the message in a form that is safe for kombu, or its refusal.

    The message names `queue` as its origin, whatever its sender wrote. Otherwise a worker could requeue it into a queue
    to which its sender has no permission to write.
    """
    try:
        return _check_envelope(_parse(raw, MAX_ENVELOPE_BYTES, MAX_REST_BYTES), queue)
    except _Unreadable as error:
        return RefusedMessage(str(error), _headers_of(raw))


def read_held(raw: bytes) -> HeldMessage | RefusedMessage:
    """Return the message of an entry in kombu's `unacked` hash, which holds the messages that workers hold."""
    try:
        match _parse(raw, MAX_HELD_BYTES, MAX_HELD_REST_BYTES):
            case [dict() as envelope, str(), str(queue)] if _is_short(queue):
                return HeldMessage(_check_envelope(envelope, queue), queue)
            case found:
                raise _Unreadable(f"the held message is no [envelope, exchange, queue] but {found!r:.80}")
    except _Unreadable as error:
        return RefusedMessage(str(error))


def read_broadcast(raw: bytes, exchange: str) -> dict[str, Any] | RefusedMessage:
    """Return the message published on a channel in a form that is safe for kombu, or its refusal."""
    read = read_envelope(raw, exchange)
    if isinstance(read, RefusedMessage) or exchange != CONTROL_EXCHANGE:
        return read
    reason = f"has {len(raw)} bytes, at most {MAX_COMMAND_BYTES} are possible" if len(raw) > MAX_COMMAND_BYTES else None
    try:
        command = _body_of(read["body"], read["properties"]["body_encoding"])
        reason = reason or _command_error(_parse(command, MAX_COMMAND_BYTES, MAX_COMMAND_BYTES))
    except _Unreadable as error:
        reason = str(error)
    reason = reason or _clock_error(read["headers"])
    return RefusedMessage(reason, read["headers"]) if reason else read


def serialize(message: dict[str, Any]) -> bytes:
    """Return the message as JSON without ASCII escapes and spaces, so that the same limits accept it again.

    It is longer than it arrived only by the name of its queue, some hundred bytes, and by numbers such as 1e15.
    """
    return json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode()


def _parse(raw: bytes, max_bytes: int, max_rest_bytes: int) -> Any:
    if len(raw) > max_bytes:
        raise _Unreadable(f"has {len(raw)} bytes, at most {max_bytes} are possible")
    if len(raw) > max_rest_bytes and (rest := _count_rest(raw, max_rest_bytes)) > max_rest_bytes:
        raise _Unreadable(f"has {rest} bytes or more beside its body, at most {max_rest_bytes} are possible")
    try:
        return _DECODER.decode(raw.decode())
    except RecursionError:
        raise _Unreadable("is nested too deeply") from None
    except ValueError as error:
        raise _Unreadable(f"is no JSON in UTF-8: {str(error)[:200]}") from None


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


def _check_envelope(whole: Any, queue: str) -> dict[str, Any]:
    if not isinstance(whole, dict):
        raise _Unreadable(f"is no object but {whole!r:.80}")
    body, headers, given = whole.get("body"), _check_object(whole, "headers"), _check_object(whole, "properties")
    if not isinstance(body, str):
        raise _Unreadable(f"'body' is {body!r:.80}, expected a text")
    if found := content_error(whole.get("content-type"), whole.get("content-encoding"), headers):
        raise _Unreadable(found)
    properties = _check_properties(given, queue)
    _body_of(body, properties["body_encoding"])
    return {
        "body": body,
        "content-type": "application/json",
        "content-encoding": "utf-8",
        "headers": headers,
        "properties": properties,
    }


def _check_object(whole: dict[str, Any], name: str) -> dict[str, Any]:
    value = whole.get(name)
    if not isinstance(value, dict):
        raise _Unreadable(f"{name!r} is {value!r:.80}, expected an object")
    if found := json_error(value):
        raise _Unreadable(f"{name!r} holds {found}")
    return value


def _check_properties(given: dict[str, Any], queue: str) -> dict[str, Any]:
    for name in ("delivery_tag", "reply_to", "correlation_id"):
        value = given.get(name)
        if not _is_short(value) and (name == "delivery_tag" or value is not None):
            raise _Unreadable(
                f"{name!r} is {value!r:.80}, expected a text of up to {MAX_PROPERTY_CHARS} printable characters"
            )
    match given.get("priority"):
        case bool() as value:
            raise _Unreadable(f"'priority' is {value!r}, expected a number from 0 to 255")
        case None | int() as value if value is None or 0 <= value <= 255:
            pass
        case value:
            raise _Unreadable(f"'priority' is {value!r:.80}, expected a number from 0 to 255")
    encoding, info = given.get("body_encoding"), given.get("delivery_info", {})
    if encoding not in (None, "base64", "utf-8"):
        raise _Unreadable(f"'body_encoding' is {encoding!r:.80}, expected 'base64'")
    if not isinstance(info, dict):
        raise _Unreadable(f"'delivery_info' is {info!r:.80}, expected an object")
    own = {"exchange": "", "routing_key": queue}
    again = {"redelivered": True} if info.get("redelivered") else {}
    return given | {"body_encoding": encoding, "delivery_info": own | again}


def _is_short(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= MAX_PROPERTY_CHARS and value.isprintable()


def _body_of(body: str, encoding: str | None) -> bytes:
    try:
        return base64.b64decode(body) if encoding == "base64" else body.encode()
    except (binascii.Error, ValueError) as error:
        raise _Unreadable(f"'body' cannot be read: {error}") from None


def _headers_of(raw: bytes) -> Mapping[str, Any]:
    """Return the headers of a refused message, which identify it in its dead letter; none if they cannot be read."""
    try:
        found = json.loads(raw)["headers"] if len(raw) <= MAX_REST_BYTES else {}
    except (ValueError, KeyError, TypeError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _command_error(command: Any) -> str | None:
    """Return why a worker must not obey the command, or None. A sender's pattern could block its main loop for ever."""
    match command:
        case {"method": str()} if command.get("pattern") or command.get("matcher"):
            return "'pattern' and 'matcher' are not obeyed: name the workers in 'destination'"
        case {"method": str()} if command.keys() <= _COMMAND_FIELDS:
            return _address_error(command)
        case _:
            return f"is no command of remote control but {command!r:.80}"


def _address_error(command: dict[str, Any]) -> str | None:
    arguments, destination, ticket = (command.get(name) for name in ("arguments", "destination", "ticket"))
    if not isinstance(arguments, dict | None):
        return f"'arguments' is {arguments!r:.80}, expected an object"
    if destination is not None and not (isinstance(destination, list) and all(map(_is_short, destination))):
        return f"'destination' is {destination!r:.80}, expected a list of names"
    if ticket is not None and not _is_short(ticket):
        return f"'ticket' is {ticket!r:.80}, expected a text"
    match command.get("reply_to"):
        case None:
            return None
        case {"exchange": exchange, "routing_key": str(key)} if exchange == f"reply.{CONTROL_EXCHANGE}" and _is_short(
            key
        ):
            return None
        case other:
            return f"'reply_to' is {other!r:.80}, expected the exchange 'reply.{CONTROL_EXCHANGE}' and a key"


def _clock_error(headers: Mapping[str, Any]) -> str | None:
    clock = headers.get("clock")
    if clock is None or (type(clock) is int and 0 <= clock <= MAX_CLOCK):
        return None
    return f"header 'clock' is {clock!r:.80}, expected a number up to {MAX_CLOCK}"
