"""The process in which work runs, as far as work has to be taken from it before it ends."""


class Host:
    """A process. This one is no worker: it is never shut down, and runs no calls."""

    def is_shutdown_due(self) -> bool:
        """Return True if the worker is shutting down, and the time in which its work may end is over."""
        return False

    def interrupt_call(self) -> None:
        """Raise the exception of the time limit in the tool call of this process. Call this in another thread."""

    def kill(self) -> None:
        """End this process of a pool at once, because its tool call does not end. Other processes continue."""
