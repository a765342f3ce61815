"""Threads for concurrent requests to the store."""

import contextvars
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")

_MAX_CONCURRENT_REQUESTS = 16
"""Concurrent requests; the client has 50 connections."""


def for_each(request: Callable[[str], T], paths: Sequence[str]) -> list[T]:
    """Return the answers to the requests for the paths, in order. Raise the error of the first one that fails.

    A single request needs no thread. Log lines of the threads name the work of the calling thread.
    """
    if len(paths) <= 1:
        return [request(path) for path in paths]
    context = contextvars.copy_context()
    with ThreadPoolExecutor(
        min(_MAX_CONCURRENT_REQUESTS, len(paths)), initializer=_adopt_context, initargs=(context,)
    ) as pool:
        return list(pool.map(request, paths))


def _adopt_context(context: contextvars.Context) -> None:
    for variable, value in context.items():
        variable.set(value)
