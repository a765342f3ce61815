"""Standing between the engine and its ports: what a test wants to happen before, after or instead of a call."""

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar, cast

P = TypeVar("P")

Call = Callable[[], Any]
Watch = Callable[[str, Call], Any]
"""Is given every port call, as "board.commit" and the like, and makes it (or not)."""


class Crash(BaseException):
    """The process died here."""


def make(name: str, call: Call) -> Any:
    """The watch that changes nothing."""
    return call()


def watched(port: P, name: str, watch: Watch) -> P:
    """The port, with all its calls made by the watch."""
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
    """Does something at the n-th port call (from 1), before or after its effect; `seen` are the calls so far."""

    def __init__(self, at: int, act: Callable[[], None], after: bool = False) -> None:
        self._at = at
        self._act = act
        self._after = after
        self.seen: list[str] = []

    def __call__(self, name: str, call: Call) -> Any:
        self.seen.append(name)
        struck = len(self.seen) == self._at
        if struck and not self._after:
            self._act()
        answer = call()
        if struck and self._after:
            self._act()
        return answer

    @property
    def struck(self) -> bool:
        """Whether it came to the n-th call."""
        return len(self.seen) >= self._at
