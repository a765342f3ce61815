"""A child process that has what its parent had open, as each new process of a prefork pool."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def forked_child() -> Iterator[None]:
    """Fork this process. The child does nothing until it is killed at the end of the block."""
    child = os.fork()
    if not child:
        try:
            signal.pause()
        finally:  # also after Ctrl-C: the child must not continue as a second test process
            os._exit(0)
    try:
        yield
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
