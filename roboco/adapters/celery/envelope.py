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

from roboco.adapters.celery.validation_error import BODY_MOST, content_flaw, plain_flaw

REST_MOST: Final = 256 * 1024
"""Bytes of an envelope without its body."""
RAW_MOST: Final = BODY_MOST // 3 * 4 + REST_MOST
"""Bytes of an envelope: base64 makes four bytes of three."""
HELD_REST_MOST: Final = 5 * REST_MOST
"""Bytes beside the body of a message that a worker holds.

Kombu writes such a message with ASCII escapes and spaces: é, two bytes, becomes six, and 1e15 with its comma, five
bytes, becomes twenty. So the body is at most three times as long as it arrived, and the rest four times, and a little
that kombu adds.
"""
HELD_MOST: Final = 3 * RAW_MOST + 2 * REST_MOST
"""Bytes of a message that a worker holds: what `read_envelope` accepts, `read_held` accepts."""
COMMAND_MOST: Final = 64 * 1024
"""Bytes of a message of remote control."""
TEXT_MOST: Final = 255
"""Characters of a property."""
CLOCK_MOST: Final = 2**53
"""The largest logical clock: a larger one would stay in every message that the worker sends."""
CONTROL: Final = "celery.pidbox"
"""The exchange of remote control. With the prefix 'reply.' it is the exchange of the replies."""
_TEXTS: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)  # also one without an end: each byte is read once
_COMMAND: Final = frozenset({"method", "arguments", "destination", "pattern", "matcher", "ticket", "reply_to"})


@dataclass(frozen=True)
class Refused:
    """The reason why no worker may receive a message, and its headers as far as they can be read."""

    reason: str
    headers: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Held:
    """A message that a worker held, and its queue."""

    message: dict[str, Any]
    queue: str


class _Unreadable(ValueError):
    """The message cannot be read, for this reason."""


def read_envelope(raw: bytes, queue: str) -> dict[str, Any] | Refused:
    """Return the message in a form that is safe for kombu, or its refusal.

    The message names `queue` as its origin, whatever its sender wrote. Otherwise a worker could requeue it into a queue
    to which its sender has no permission to write.
    """
    try:
        return _checked(_parsed(raw, RAW_MOST, REST_MOST), queue)
    except _Unreadable as error:
        return Refused(str(error), _headers_of(raw))


def read_held(raw: bytes) -> Held | Refused:
    """Return the message of an entry in kombu's `unacked` hash, which holds the messages that workers hold."""
    try:
        match _parsed(raw, HELD_MOST, HELD_REST_MOST):
            case [dict() as envelope, str(), str(queue)] if _is_short(queue):
                return Held(_checked(envelope, queue), queue)
            case found:
                raise _Unreadable(f"the held message is no [envelope, exchange, queue] but {found!r:.80}")
    except _Unreadable as error:
        return Refused(str(error))


def read_broadcast(raw: bytes, exchange: str) -> dict[str, Any] | Refused:
    """Return the message published on a channel in a form that is safe for kombu, or its refusal."""
    read = read_envelope(raw, exchange)
    if isinstance(read, Refused) or exchange != CONTROL:
        return read
    reason = f"has {len(raw)} bytes, at most {COMMAND_MOST} are possible" if len(raw) > COMMAND_MOST else None
    try:
        command = _body_of(read["body"], read["properties"]["body_encoding"])
        reason = reason or _command_flaw(_parsed(command, COMMAND_MOST, COMMAND_MOST))
    except _Unreadable as error:
        reason = str(error)
    reason = reason or _clock_flaw(read["headers"])
    return Refused(reason, read["headers"]) if reason else read


def written(message: dict[str, Any]) -> bytes:
    """Return the message as JSON without ASCII escapes and spaces, so that the same limits accept it again.

    It is longer than it arrived only by the name of its queue, some hundred bytes, and by numbers such as 1e15.
    """
    return json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode()


def _parsed(raw: bytes, most: int, rest_most: int) -> Any:
    if len(raw) > most:
        raise _Unreadable(f"has {len(raw)} bytes, at most {most} are possible")
    if len(raw) > rest_most and (rest := _without_body(raw, rest_most)) > rest_most:
        raise _Unreadable(f"has {rest} bytes or more beside its body, at most {rest_most} are possible")
    try:
        return _DECODER.decode(raw.decode())
    except RecursionError:
        raise _Unreadable("is nested too deeply") from None
    except ValueError as error:
        raise _Unreadable(f"is no JSON in UTF-8: {str(error)[:200]}") from None


def _without_body(raw: bytes, most: int) -> int:
    """Return the bytes beside the longest text, or a number above `most` if there are more than that."""
    longest = 0
    for text in _TEXTS.finditer(raw):
        longest = max(longest, text.end() - text.start())
        if text.end() - longest > most:
            return text.end() - longest
    return len(raw) - longest


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key is repeated")
    return found


def _no_number(text: str) -> Any:
    raise ValueError(f"{text} is no number of JSON")


_DECODER: Final = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_no_number)


def _checked(whole: Any, queue: str) -> dict[str, Any]:
    if not isinstance(whole, dict):
        raise _Unreadable(f"is no object but {whole!r:.80}")
    body, headers, given = whole.get("body"), _object(whole, "headers"), _object(whole, "properties")
    if not isinstance(body, str):
        raise _Unreadable(f"'body' is {body!r:.80}, expected a text")
    if found := content_flaw(whole.get("content-type"), whole.get("content-encoding"), headers):
        raise _Unreadable(found)
    properties = _properties(given, queue)
    _body_of(body, properties["body_encoding"])
    return {
        "body": body,
        "content-type": "application/json",
        "content-encoding": "utf-8",
        "headers": headers,
        "properties": properties,
    }


def _object(whole: dict[str, Any], name: str) -> dict[str, Any]:
    value = whole.get(name)
    if not isinstance(value, dict):
        raise _Unreadable(f"{name!r} is {value!r:.80}, expected an object")
    if found := plain_flaw(value):
        raise _Unreadable(f"{name!r} holds {found}")
    return value


def _properties(given: dict[str, Any], queue: str) -> dict[str, Any]:
    for name in ("delivery_tag", "reply_to", "correlation_id"):
        value = given.get(name)
        if not _is_short(value) and (name == "delivery_tag" or value is not None):
            raise _Unreadable(f"{name!r} is {value!r:.80}, expected a text of up to {TEXT_MOST} printable characters")
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
    return isinstance(value, str) and 0 < len(value) <= TEXT_MOST and value.isprintable()


def _body_of(body: str, encoding: str | None) -> bytes:
    try:
        return base64.b64decode(body) if encoding == "base64" else body.encode()
    except (binascii.Error, ValueError) as error:
        raise _Unreadable(f"'body' cannot be read: {error}") from None


def _headers_of(raw: bytes) -> Mapping[str, Any]:
    """Return the headers of a refused message, which identify it in its dead letter; none if they cannot be read."""
    try:
        found = json.loads(raw)["headers"] if len(raw) <= REST_MOST else {}
    except (ValueError, KeyError, TypeError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _command_flaw(command: Any) -> str | None:
    """Return why a worker must not obey the command, or None. A sender's pattern could block its main loop for ever."""
    match command:
        case {"method": str()} if command.get("pattern") or command.get("matcher"):
            return "'pattern' and 'matcher' are not obeyed: name the workers in 'destination'"
        case {"method": str()} if command.keys() <= _COMMAND:
            return _addressed_flaw(command)
        case _:
            return f"is no command of remote control but {command!r:.80}"


def _addressed_flaw(command: dict[str, Any]) -> str | None:
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
        case {"exchange": exchange, "routing_key": str(key)} if exchange == f"reply.{CONTROL}" and _is_short(key):
            return None
        case other:
            return f"'reply_to' is {other!r:.80}, expected the exchange 'reply.{CONTROL}' and a key"


def _clock_flaw(headers: Mapping[str, Any]) -> str | None:
    clock = headers.get("clock")
    if clock is None or (type(clock) is int and 0 <= clock <= CLOCK_MOST):
        return None
    return f"header 'clock' is {clock!r:.80}, expected a number up to {CLOCK_MOST}"
