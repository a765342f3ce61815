"""Interception of port calls: a watch acts before, after or instead of each call of the engine to a port."""

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar, cast

from roboco.errors import TransientError

P = TypeVar("P")

PortCall = Callable[[], Any]
Watch = Callable[[str, PortCall], Any]
"""Receives the name of every port call, such as "task_store.commit", and the call, which it makes or leaves out."""


class Crash(BaseException):
    """The death of the process at this point."""


def make_call(name: str, call: PortCall) -> Any:
    """Make the call: the watch that changes nothing."""
    return call()


def watch_port(port: P, name: str, watch: Watch) -> P:
    """Return the port wrapped so that the watch makes all of its calls."""
    return cast(P, _Watched(port, name, watch))


class _Watched:
    def __init__(self, port: object, name: str, watch: Watch) -> None:
        self._port = port
        self._name = name
        self._watch = watch

    def __getattr__(self, method: str) -> Any:
        call = getattr(self._port, method)
        if not callable(call):
            return call
        return lambda *args, **named: self._watch(f"{self._name}.{method}", partial(call, *args, **named))


class Fault:
    """A watch that acts before or after the n-th port call, counted from 1, or raises there.

    `seen` holds the names of all calls.
    """

    def __init__(self, at: int, act: Callable[[], None] | BaseException, after: bool = False) -> None:
        self._at = at
        self._act = act
        self._after = after
        self.seen: list[str] = []

    def __call__(self, name: str, call: PortCall) -> Any:
        self.seen.append(name)
        struck = len(self.seen) == self._at
        if struck and not self._after:
            self._strike()
        answer = call()
        if struck and self._after:
            self._strike()
        return answer

    def _strike(self) -> None:
        if isinstance(self._act, BaseException):
            raise self._act
        self._act()

    @property
    def struck(self) -> bool:
        """True if the n-th call was made."""
        return len(self.seen) >= self._at


def refusing(refused: str, reason: str = "no answer") -> Watch:
    """Return a watch that makes all calls but those of this name: their server does not answer."""

    def watch(name: str, call: PortCall) -> Any:
        if name == refused:
            raise TransientError(reason)
        return call()

    return watch


def crash_at(where: str, after: bool = False, times: int = 1000) -> Watch:
    """Return a watch with which this number of processes die at the call of this name, before or after its effect."""
    left = [times]

    def watch(name: str, call: PortCall) -> Any:
        if name != where or not left[0]:
            return call()
        left[0] -= 1
        if after:
            call()
        raise Crash

    return watch
