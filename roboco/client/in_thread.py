"""in_thread: the async form of a blocking method, as a thin layer on bounded thread pools.

    asend, astop, aapprove ... ─► CONTROLS      arun, afork, aupload ─► SUBMISSIONS      all others ─► READS

The library is synchronous. A service with an event loop calls `await task.asend(...)`, which runs `task.send(...)` in
one of at most MAX_THREADS threads of a pool for the whole process; further calls wait in line without blocking the
loop. The thread sees a copy of the caller's context variables, such as a trace or a request id in its logs.

Controls have threads that no other call uses. So a store that is slow to read, or many long downloads and uploads,
do not delay a stop.
"""

from collections.abc import Callable, Coroutine
from contextvars import copy_context
from functools import partial
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from roboco.process.threads import ThreadPool

Instance = TypeVar("Instance")
Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

MAX_THREADS = 32
"""Blocking calls of one pool that a process runs at the same time for its event loops."""
CONTROLS = ThreadPool(MAX_THREADS, "roboco-control")
"""The threads for what a caller sends to a task, and for receipts, which a caller awaits after that."""
SUBMISSIONS = ThreadPool(MAX_THREADS, "roboco-submission")
"""The threads for new tasks and their files."""
READS = ThreadPool(MAX_THREADS, "roboco-read")
"""The threads for everything else."""


async def run_in_thread(call: Callable[[], Result], pool: ThreadPool = READS) -> Result:
    """Run a blocking call in a thread of the pool, in a copy of the caller's context. Return its result."""
    return await pool.run(partial(copy_context().run, call))


class in_thread(Generic[Instance, Arguments, Result]):  # noqa: N801 - used like a function
    """The async form of a method: same arguments, same result, same errors; it blocks a thread, not the event loop.

    If the awaiting coroutine is cancelled, the call continues in its thread, and its result is dropped: a control may
    still be accepted. Sending it again with the same `item_id` or `task_id` has no further effect.
    """

    def __init__(self, method: Callable[Concatenate[Instance, Arguments], Result], pool: ThreadPool = READS) -> None:
        self._method = method
        self._pool = pool
        self.__doc__ = f"Do the same as `{method.__name__}`, for an event loop."

    def __get__(self, instance: Instance, owner: type[Instance]) -> Callable[Arguments, Coroutine[Any, Any, Result]]:
        """Return the bound async method."""

        async def call(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
            # Bound by name, so that a subclass or a test that replaces the method replaces its async form too.
            bound = getattr(instance, self._method.__name__)
            return await run_in_thread(partial(bound, *args, **kwargs), self._pool)

        call.__name__ = f"a{self._method.__name__}"
        call.__doc__ = self.__doc__
        return call
