"""Errors of servers that answer, and refuse: an operator has to act, and the same call may succeed later."""

from roboco.errors import TransientError


class MissingRight(TransientError):
    """A server refuses its user a right. The call has changed nothing there; an operator may grant the right."""


class RefusedWrites(TransientError):
    """Redis answers, and refuses writes for now: its memory or disk is full, or it is a replica."""
