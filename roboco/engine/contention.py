"""contention: several workers replace one file of the workspace, each after it has read the file."""

from roboco.errors import TransientError

RETRY_DELAYS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
"""Seconds after each attempt to replace a file that another worker has written meanwhile."""


def contention_error(path: str) -> TransientError:
    """Return the error of a file that other workers have changed at each attempt to replace it."""
    return TransientError(f"other workers keep changing {path!r}; the write is retried")
