"""unread_lists: lists in a Redis broker that a producer has filled and that no worker reads.

Kombu builds the name of a list from the queue, and from settings of the producer that workers cannot know:

    GLOBAL_KEYPREFIX roboco.coordinator SEP PRIORITY_STEP

A worker reads the lists without a prefix, with kombu's own separator, for the priorities 0 to 9. A message in any other
list waits for ever.
"""

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from celery import Celery

from roboco.broker.broker import PRIORITIES, SEPARATOR
from roboco.broker.broker_error import translating_errors
from roboco.broker.health.bootstep import QUEUE_INFIX
from roboco.broker.names import QUEUES, queue_lanes

MAX_LISTS: Final = 20
"""Lists that are reported."""
PAGE_SIZE: Final = 1000
"""Keys of a page of the search."""
_NAMES: Final = [lane for queue in QUEUES for lane in reversed(queue_lanes(queue))]  # the lanes first: they are longer
_PATTERN: Final = re.compile(rf"(?P<prefix>.*?)(?P<queue>{'|'.join(map(re.escape, _NAMES))})(?P<rest>.*)", re.DOTALL)
_STEP: Final = re.compile(r"(?P<sep>.*?)(?P<step>[0-9]+)", re.DOTALL)
_PIDBOX: Final = ".celery.pidbox"
"""Part of the queues of remote control, whose names begin with the name of a worker."""


@dataclass(frozen=True)
class UnreadList:
    """A list that no worker reads."""

    name: str
    waiting: int
    """Messages in it."""
    queue: str
    """The list to which its messages belong."""
    setting: str
    """The producer's setting that causes the name: global_keyprefix, sep, priority_steps or queue."""
    remedy: str

    def __str__(self) -> str:
        return f"{self.waiting} messages wait in the list {self.name!r:.200} of the broker, which no worker reads"

    @property
    def move(self) -> str:
        """How to move the messages to their queue."""
        return f"move them: repeat LMOVE {_quoted(self.name)} {self.queue} RIGHT LEFT in redis-cli until it answers nil"


class UnreadLists:
    """Searches a broker page by page. Do not share it between threads."""

    def __init__(self, app: Celery) -> None:
        self._app = app
        self._cursor = 0
        self._names = set[str]()

    def search(self, pages: int) -> bool:
        """Search some pages of keys. Return True after the last page of the broker: the next search begins again.

        TransientError if the broker does not answer, or if its user may not use SCAN. A broker on RabbitMQ has no such
        lists: it drops a message for a queue that does not exist.
        """
        with _connected(self._app) as connection:
            if connection.transport.driver_type != "redis":
                return True
            client = connection.default_channel.client
            for _ in range(pages):
                self._cursor, keys = client.scan(self._cursor, match="*roboco.*", count=PAGE_SIZE)
                self._names.update(name for name in map(_decode, keys) if _cause_of(name) is not None)
                if not self._cursor:
                    return True
        return False

    def found(self) -> list[UnreadList]:
        """Return the lists that were found and still have messages, the longest first, at most MAX_LISTS."""
        with _connected(self._app) as connection:
            lengths = dict(_lengths(connection.default_channel.client, self._names)) if self._names else {}
        self._names = set(sorted(lengths, key=lambda name: -lengths[name])[:MAX_LISTS])
        causes = ((name, _cause_of(name)) for name in sorted(self._names, key=lambda name: -lengths[name]))
        return [UnreadList(name, lengths[name], *cause) for name, cause in causes if cause is not None]


def _quoted(name: str) -> str:
    """Return the name as redis-cli reads it."""
    text = "".join(chr(byte) if 32 <= byte < 127 and byte not in b'"\\' else f"\\x{byte:02x}" for byte in _encode(name))
    return f'"{text}"'


@contextmanager
def _connected(app: Celery) -> Iterator[Any]:
    with translating_errors("the search for lists without readers"), app.connection_for_write() as connection:
        yield connection


def _encode(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")


def _decode(key: bytes) -> str:
    return key.decode("utf-8", "surrogateescape")


def _lengths(client: Any, names: Iterable[str]) -> Iterator[tuple[str, int]]:
    """Yield each name of a list that has messages, and its length."""
    listed = [name for name in names if client.type(_encode(name)) == b"list"]
    for name in listed:
        yield name, int(client.llen(_encode(name)))


def _cause_of(name: str) -> tuple[str, str, str] | None:
    """Return the list to which messages of this list belong, the setting that causes it, and the remedy.

    Return None if workers read the list, or if it is not one of a producer.
    """
    parts = _PATTERN.fullmatch(name)
    if parts is None or _PIDBOX in name:
        return None
    prefix, queue, rest = parts["prefix"], parts["queue"], parts["rest"]
    if not prefix and rest.startswith(QUEUE_INFIX):
        return None
    step = _STEP.fullmatch(rest)
    if not prefix and (not rest or (step and step["sep"] == SEPARATOR and int(step["step"]) in PRIORITIES[1:])):
        return None
    if prefix:
        return queue, "global_keyprefix", f"remove global_keyprefix={prefix!r:.80} from {_OPTIONS}"
    if step is None:
        return queue, "queue", f"correct the queue {name!r:.80} of the producer"
    if step["sep"] != SEPARATOR:
        return queue, "sep", f"remove sep={step['sep']!r:.80} from {_OPTIONS}"
    return queue, "priority_steps", f"remove priority_steps from {_OPTIONS}, or send with a priority from 0 to 9"


_OPTIONS: Final = "broker_transport_options of the producer"
