"""A hostile producer with write access to the broker, which knows how Celery and kombu read messages.

`MALFORMED` holds messages that no worker can read, `BROADCASTS` those on the channel of remote control, and
`mutations` yields further messages, the same ones for the same seed.
"""

import base64
import json
import random
import zlib
from collections.abc import Iterator
from typing import Any, Final

from roboco.broker.names import AGENTS_QUEUE, TURN_TASK

BODY: Final = b'[["x"], {}, {}]'


def headers(**changed: Any) -> dict[str, Any]:
    """Return the headers of a valid message with these changes. None removes a header."""
    return _with({"task": TURN_TASK, "id": "good-1", "retries": 0, "timelimit": [None, None], "lang": "py"}, changed)


def properties(**changed: Any) -> dict[str, Any]:
    """Return the properties of a valid message with these changes. None removes a property."""
    good = {
        "delivery_tag": "tag-1",
        "delivery_info": {"exchange": "", "routing_key": AGENTS_QUEUE},
        "body_encoding": "base64",
        "priority": 0,
    }
    return _with(good, changed)


def message(body: bytes = BODY, **changed: Any) -> dict[str, Any]:
    """Return a valid message as Celery writes it to Redis, with these changes. None removes a part."""
    good: dict[str, Any] = {
        "body": base64.b64encode(body).decode(),
        "content-type": "application/json",
        "content-encoding": "utf-8",
        "headers": headers(),
        "properties": properties(),
    }
    return _with(good, changed)


def raw(value: object) -> bytes:
    """Return the value as JSON for the queue, also with NaN and lone surrogates."""
    return json.dumps(value).encode()


def nested(depth: int) -> Any:
    """Return lists nested to this depth."""
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def _with(good: dict[str, Any], changed: dict[str, Any]) -> dict[str, Any]:
    named = {name.replace("_", "-") if name.startswith("content_") else name: value for name, value in changed.items()}
    return {name: value for name, value in (good | named).items() if value is not None}


def _headers(**changed: Any) -> bytes:
    return raw(message(headers=headers(**changed)))


def _properties(**changed: Any) -> bytes:
    return raw(message(properties=properties(**changed)))


def _zipped(size: int) -> bytes:
    packed = base64.b64encode(zlib.compress(b" " * size)).decode()
    return raw(message(body=b"") | {"body": packed, "headers": headers(compression="application/x-gzip")})


MALFORMED: Final[dict[str, bytes]] = {
    # what is no envelope
    "a letter": b"x",
    "nothing": b"",
    "no UTF-8": b"\xff\xfe\x00",
    "cut off": raw(message())[:-20],
    "two values": raw(message()) * 2,
    "a number": b"1",
    "null": b"null",
    "a text": b'"x"',
    "a list": b"[]",
    "a long list": b"[" + b"[]," * 200_000 + b"[]]",
    "an empty object": b"{}",
    "deep": b"[" * 100_000 + b"]" * 100_000,
    "deep object": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "a number of 5000 digits": b'{"body": ' + b"9" * 5000 + b"}",
    "pickle": b"\x80\x04\x95\x0b\x00\x00\x00\x00\x00\x00\x00\x8c\x07builtins\x94.",
    "a key twice": raw(message()).replace(b'{"body"', b'{"headers": {}, "body"', 1),
    # its parts
    "no properties": raw(message(properties=None)),
    "properties are a list": raw(message(properties=[])),
    "properties are a text": raw(message(properties="x")),
    "no headers": raw(message(headers=None)),
    "headers are a list": raw(message(headers=[1])),
    "headers are a text": raw(message(headers="x")),
    "headers are a number": raw(message(headers=5)),
    "body is a list": raw(message() | {"body": [[], {}, {}]}),
    "body is a number": raw(message() | {"body": 5}),
    "body is an object": raw(message() | {"body": {"task": TURN_TASK}}),
    "no body": raw(message() | {"body": ""}),
    "content type is pickle": raw(message(content_type="application/x-python-serialize")),
    "content type is yaml": raw(message(content_type="application/x-yaml")),
    "content type is a list": raw(message(content_type=["application/json"])),
    "content type is missing": raw(message(content_type=None)),
    "content encoding is a codec": raw(message(content_encoding="zlib_codec")),
    "content encoding is a number": raw(message(content_encoding=8)),
    # properties
    "no tag": _properties(delivery_tag=None),
    "tag is a list": _properties(delivery_tag=["a"]),
    "tag is an object": _properties(delivery_tag={"a": 1}),
    "tag is a number": _properties(delivery_tag=7),
    "tag is long": _properties(delivery_tag="x" * 100_000),
    "delivery info is a list": _properties(delivery_info=["x"]),
    "delivery info is a text": _properties(delivery_info="x"),
    "body encoding is unknown": _properties(body_encoding="rot13"),
    "body encoding is a number": _properties(body_encoding=64),
    "body is no base64": raw(message() | {"body": "A"}),
    "priority is a list": _properties(priority=[1]),
    "priority is infinite": raw(message(properties=properties(priority=float("inf")))),
    "priority is an object": _properties(priority={"a": 1}),
    "reply to is an object": _properties(reply_to={"a": 1}),
    "correlation id is a list": _properties(correlation_id=[1]),
    # headers
    "long id": _headers(id="x" * 256),
    "NaN in a header": _headers(note=float("nan")),
    "infinity in a header": _headers(note=float("-inf")),
    "1e999 in a header": raw(message()).replace(b'"retries": 0', b'"retries": 1e999'),
    "lone surrogate in a header": _headers(note="\ud800"),
    "lone surrogate in a header's name": _headers(**{"\udfff": 1}),
    "lone surrogate in the id": _headers(id="\ud800"),
    "deep header": _headers(note=nested(900)),
    "header of a megabyte": _headers(note="x" * 1_000_000),
    "a header of an unknown kind": _headers(note={"__type__": "x", "__value__": 1}),
    "a header that is no date": _headers(note=[{"__type__": "datetime", "__value__": "x"}]),
    "compressed": _zipped(1000),
    "a bomb": _zipped(2_000_000),
    "compression is a list": _headers(compression=["gzip"]),
    "no id": _headers(id=None),
    "id is an object": _headers(id={"a": 1}),
    "no task": _headers(task=None),
    "task is a list": _headers(task=["x"]),
    "task is unknown": _headers(task="shop.unknown"),
    "timelimit is a number": _headers(timelimit=5),
    "timelimit has three": _headers(timelimit=[1, 2, 3]),
    "timelimit is endless": _headers(timelimit=[1e308, 1e308]),
    "timelimit is negative": _headers(timelimit=[-1, -1]),
    "eta is no time": _headers(eta="soon"),
    "eta is a list": _headers(eta=[1]),
    "eta is in 9999": _headers(eta="9999-12-31T23:59:59+00:00"),
    "expires is no time": _headers(expires="soon"),
    "expires is an object": _headers(expires={"a": 1}),
    "stamps are a number": _headers(stamped_headers=5),
    "stamps without a stamp": _headers(stamped_headers=["a"], stamps=[1]),
    "retries is a text": _headers(retries="x"),
    "group is a list": _headers(group=[1]),
    "root is an object": _headers(root_id={"a": 1}),
    "shadow is a list": _headers(shadow=["x"]),
    "origin is a list": _headers(origin=[1]),
    "argsrepr is an object": _headers(argsrepr={"a": 1}),
    "kwargsrepr is a number": _headers(kwargsrepr=5),
    "ignore result is a text": _headers(ignore_result="x"),
    "sent at is a text": _headers(roboco_sent_at="x"),
    "sent at is huge": _headers(roboco_sent_at=10**400),
    **{
        f"{name} in the headers": _headers(**{name: [{"task": "shop.pay", "args": [], "kwargs": {}, "options": {}}]})
        for name in ("callbacks", "errbacks", "chain", "chord")
    },
    # bodies
    "body is no JSON": raw(message(b"\xff" * 1000)),
    "body is a JSON object": raw(message(b'{"args": [], "kwargs": {}}')),
    "body is a pair": raw(message(b"[[], {}]")),
    "args are an object": raw(message(b"[{}, {}, {}]")),
    "kwargs are a list": raw(message(b"[[], [], {}]")),
    "options are a list": raw(message(b"[[], {}, [1]]")),
    "deep body": raw(message(b"[[" + b"[" * 5000 + b"]" * 5000 + b"], {}, {}]")),
    "body nested 900 times": raw(message(b"[[" + b"[" * 900 + b"]" * 900 + b"], {}, {}]")),
    "body of millions of lists": raw(message(b"[[" + b"[]," * 4_100_000 + b"[]], {}, {}]")),
    "body of an unknown kind": raw(message(b'[["x"], {"a": {"__type__": "x", "__value__": 1}}, {}]')),
    "callbacks": raw(message(b'[["x"], {}, {"callbacks": [{"task": "shop.pay", "args": [], "kwargs": {}}]}]')),
    "errbacks": raw(message(b'[["x"], {}, {"errbacks": [{"task": "shop.pay", "args": [], "kwargs": {}}]}]')),
    "a chain": raw(message(b'[["x"], {}, {"chain": [{"task": "shop.pay", "args": [], "kwargs": {}}]}]')),
    "a chord": raw(message(b'[["x"], {}, {"chord": {"task": "shop.pay", "args": [], "kwargs": {}}}]')),
}
"""Messages that no worker can run, by case, as the queue's list holds them."""


def broadcast(body: object = None, **changed: Any) -> dict[str, Any]:
    """Return a message of remote control with these changes."""
    command: dict[str, object] = {
        "method": "ping",
        "arguments": {},
        "destination": None,
        "pattern": None,
        "matcher": None,
    }
    asked = command if body is None else body
    kept = {"delivery_tag": "b-1", "delivery_info": {"exchange": "celery.pidbox", "routing_key": ""}}
    good = message(json.dumps(asked).encode()) | {"headers": {"clock": 1, "expires": 0}}
    return good | {"properties": kept | {"body_encoding": "base64"}} | changed


def _asked(**changed: Any) -> bytes:
    return raw(broadcast({"method": "ping", "arguments": {}} | changed))


BROADCASTS: Final[dict[str, bytes]] = {
    **{name: value for name, value in MALFORMED.items() if value and b'"' not in value[:200]},
    "a broadcast without properties": raw({"body": "e30="}),
    "a broadcast with a list of properties": raw(broadcast(properties=[])),
    "a broadcast with a list of headers": raw(broadcast(headers=[1])),
    "a broadcast that is a bomb": _zipped(2_000_000),
    "a broadcast of another kind": raw(broadcast() | {"content-type": "application/x-python-serialize"}),
    "a clock that is a text": raw(broadcast(headers={"clock": "x"})),
    "a clock of 400 digits": raw(broadcast(headers={"clock": 10**400})),
    "a clock that is NaN": raw(broadcast(headers={"clock": float("nan")})),
    "a clock in a list": raw(broadcast(headers={"clock": [1]})),
    "a command that is a list": raw(broadcast([1, 2])),
    "a command that is a text": raw(broadcast("ping")),
    "a command without a method": raw(broadcast({"arguments": {}})),
    "a method that is a list": _asked(method=["ping"]),
    "an unknown method": _asked(method="no such"),
    "arguments that are a list": _asked(arguments=[1]),
    "arguments that are unknown": _asked(arguments={"x": 1}),
    "a field that is unknown": _asked(x=1),
    "a destination that is a number": _asked(destination=5),
    "a pattern that never ends": _asked(pattern=r"(([a-z@.0-9_-]+)+)+\s", matcher="pcre"),
    "a pattern that is no pattern": _asked(pattern="(", matcher="pcre"),
    "a matcher that is unknown": _asked(pattern="*", matcher="x"),
    "a reply to a text": _asked(reply_to="roboco.agents", ticket="t"),
    "a reply to nowhere": _asked(reply_to={}, ticket="t"),
    "a reply into a queue": _asked(reply_to={"exchange": "", "routing_key": AGENTS_QUEUE}, ticket="t"),
    "a ticket that is an object": _asked(reply_to={"exchange": "reply.celery.pidbox", "routing_key": "x"}, ticket={}),
}
"""Messages on the channel of remote control that no worker can obey."""


def mutations(seed: int, count: int) -> Iterator[bytes]:
    """Yield random bytes, and valid messages with random changes of their parts or bytes."""
    chance = random.Random(seed)  # the same ones for the same seed
    for _ in range(count):
        match chance.randrange(4):
            case 0:
                yield chance.randbytes(chance.randrange(200))
            case 1:
                yield _spoiled(chance, raw(message()))
            case _:
                whole = message()
                for _ in range(chance.randint(1, 3)):
                    _change(chance, whole)
                yield raw(whole)


def _spoiled(chance: random.Random, data: bytes) -> bytes:
    spoiled = bytearray(data)
    for _ in range(chance.randint(1, 5)):
        spoiled[chance.randrange(len(spoiled))] = chance.randrange(256)
    return bytes(spoiled)


def _change(chance: random.Random, whole: dict[str, Any]) -> None:
    inside = chance.choice([whole, whole.get("headers"), whole.get("properties")])
    if not isinstance(inside, dict):
        return
    names = [*inside, "compression", "eta", "expires", "stamped_headers", "stamps", "group", "shadow", "reply_to"]
    name = chance.choice(names)
    if chance.random() < 0.2:
        inside.pop(name, None)
    else:
        inside[name] = _value(chance)


def _value(chance: random.Random) -> object:
    odd = (
        None,
        True,
        0,
        -1,
        2**70,
        10**400,
        1.5,
        1e308,
        float("nan"),
        float("inf"),
        "",
        "x",
        "\ud800",
        "\0\n",
        "é" * 99,
    )
    odd_ones: tuple[object, ...] = (*odd, [], {}, [1], {"a": 1}, {"__type__": "x", "__value__": 1}, nested(60))
    return chance.choice(odd_ones)
