"""The envelope of a Celery message in Redis, checked strictly before kombu makes a message of it.

Kombu does not check envelopes: most of those that it cannot read crash the worker, or kombu drops them. It also unpacks
compressed messages while it reads them. So this module checks the size, then the JSON, then each field that kombu or
Celery reads.
"""

import base64
import binascii
import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any, Final

from roboco.broker.message_validation import MAX_BODY_BYTES, REFUSED_HEADER, content_error, json_error

MAX_REST_BYTES: Final = 256 * 1024
"""Bytes of an envelope without its body."""
MAX_ENVELOPE_BYTES: Final = MAX_BODY_BYTES // 3 * 4 + MAX_REST_BYTES
"""Bytes of an envelope: base64 makes four bytes of three."""
MAX_UNREADABLE_BYTES: Final = 16 * 1024
"""Bytes that are kept of a message that no worker can read."""
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


class UnreadableError(ValueError):
    """The message cannot be read, for this reason."""


def read_envelope(raw: bytes, queue: str) -> dict[str, Any]:
    """Return the message in a form that is safe for kombu. An unreadable one becomes a message with REFUSED_HEADER.

    The message names `queue` as its origin, whatever its sender wrote. Otherwise a worker could requeue it into a queue
    to which its sender has no permission to write.
    """
    try:
        return _check_envelope(_parse(raw, MAX_ENVELOPE_BYTES, MAX_REST_BYTES), queue)
    except UnreadableError as error:
        return _refused(raw, queue, str(error))


def _refused(raw: bytes, queue: str, reason: str) -> dict[str, Any]:
    """Return a message with the headers of an unreadable one, as far as they can be read, and its beginning as body."""
    if len(raw) > MAX_UNREADABLE_BYTES:
        reason += f"; here are {MAX_UNREADABLE_BYTES} of {len(raw)} bytes, SHA-256 {hashlib.sha256(raw).hexdigest()}"
    return {
        "body": base64.b64encode(raw[:MAX_UNREADABLE_BYTES]).decode(),
        "content-type": "application/json",
        "content-encoding": "utf-8",
        "headers": _headers_of(raw) | {REFUSED_HEADER: reason},
        "properties": {"body_encoding": "base64", "delivery_info": {"exchange": "", "routing_key": queue}},
    }


def _headers_of(raw: bytes) -> dict[str, Any]:
    try:
        found = json.loads(raw)["headers"] if len(raw) <= MAX_REST_BYTES else {}
    except (ValueError, KeyError, TypeError, RecursionError):
        return {}
    readable = isinstance(found, dict) and json_error(found) is None
    return {name: found[name] for name in found if name != "compression"} if readable else {}


def read_broadcast(raw: bytes, exchange: str) -> dict[str, Any]:
    """Return the message published on a channel in a form that is safe for kombu, or raise UnreadableError."""
    read = _check_envelope(_parse(raw, MAX_ENVELOPE_BYTES, MAX_REST_BYTES), exchange)
    if exchange != CONTROL_EXCHANGE:
        return read
    command = _body_of(read["body"], read["properties"]["body_encoding"])
    if found := _command_error(_parse(command, MAX_COMMAND_BYTES, MAX_COMMAND_BYTES)) or _clock_error(read["headers"]):
        raise UnreadableError(found)
    return read


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


def _check_envelope(whole: Any, queue: str) -> dict[str, Any]:
    if not isinstance(whole, dict):
        raise UnreadableError(f"is no object but {whole!r:.80}")
    body, headers, given = whole.get("body"), _check_object(whole, "headers"), _check_object(whole, "properties")
    if not isinstance(body, str):
        raise UnreadableError(f"'body' is {body!r:.80}, expected a text")
    if found := content_error(whole.get("content-type"), whole.get("content-encoding"), headers):
        raise UnreadableError(found)
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
        raise UnreadableError(f"{name!r} is {value!r:.80}, expected an object")
    if found := json_error(value):
        raise UnreadableError(f"{name!r} holds {found}")
    return value


def _check_properties(given: dict[str, Any], queue: str) -> dict[str, Any]:
    for name in ("delivery_tag", "reply_to", "correlation_id"):
        value = given.get(name)
        if not _is_short(value) and (name == "delivery_tag" or value is not None):
            raise UnreadableError(
                f"{name!r} is {value!r:.80}, expected a text of up to {MAX_PROPERTY_CHARS} printable characters"
            )
    match given.get("priority"):
        case bool() as value:
            raise UnreadableError(f"'priority' is {value!r}, expected a number from 0 to 255")
        case None | int() as value if value is None or 0 <= value <= 255:
            pass
        case value:
            raise UnreadableError(f"'priority' is {value!r:.80}, expected a number from 0 to 255")
    encoding, info = given.get("body_encoding"), given.get("delivery_info", {})
    if encoding not in (None, "base64", "utf-8"):
        raise UnreadableError(f"'body_encoding' is {encoding!r:.80}, expected 'base64'")
    if not isinstance(info, dict):
        raise UnreadableError(f"'delivery_info' is {info!r:.80}, expected an object")
    own = {"exchange": "", "routing_key": queue}
    again = {"redelivered": True} if info.get("redelivered") else {}
    return given | {"body_encoding": encoding, "delivery_info": own | again}


def _is_short(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= MAX_PROPERTY_CHARS and value.isprintable()


def _body_of(body: str, encoding: str | None) -> bytes:
    try:
        return base64.b64decode(body) if encoding == "base64" else body.encode()
    except (binascii.Error, ValueError) as error:
        raise UnreadableError(f"'body' cannot be read: {error}") from None


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
