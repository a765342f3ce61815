"""Signals: requests to cancel running work."""

from collections.abc import Callable
from contextlib import AbstractContextManager

Listen = Callable[[str, int, Callable[[], None]], AbstractContextManager[None]]
"""Calls the callback, from any thread, if the work of this task and epoch is cancelled before the block ends.

A signal may be lost; the lease then reports the request, later.
"""
