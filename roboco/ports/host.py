"""The process in which work runs, as far as work has to be taken from it before it ends."""

from typing import Protocol


class Host(Protocol):
    """A worker process."""

    def is_shutdown_due(self) -> bool:
        """Return True if the worker is shutting down, and the time in which its work may end is over."""

    def interrupt_call(self) -> None:
        """Raise the exception of the time limit in the tool call of this process. Call this in another thread."""

    def kill(self) -> None:
        """End this process of a pool at once, because its tool call does not end. Other processes continue."""


class NoHost:
    """A process that is no worker: it is never shut down, and runs no calls."""

    def is_shutdown_due(self) -> bool:
        """Return False."""
        return False

    def interrupt_call(self) -> None:
        """Do nothing."""

    def kill(self) -> None:
        """Do nothing."""
