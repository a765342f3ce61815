"""in_thread: the async form of a blocking method, as a thin layer on a bounded thread pool.

The library is synchronous. A service with an event loop calls `await task.asend(...)`, which runs `task.send(...)` in
one of at most MAX_THREADS threads for the whole process; further calls wait in line without blocking the loop. The
thread sees a copy of the caller's context variables, such as a trace or a request id in its logs.
"""

from collections.abc import Callable, Coroutine
from contextvars import copy_context
from functools import partial
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from roboco.adapters.threads import ThreadPool

Instance = TypeVar("Instance")
Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

MAX_THREADS = 32
"""Blocking calls that a process runs at the same time for its event loops."""
_THREADS = ThreadPool(MAX_THREADS)


async def run_in_thread(call: Callable[[], Result]) -> Result:
    """Run a blocking call in one of this process's threads, in a copy of the caller's context. Return its result."""
    return await _THREADS.run(partial(copy_context().run, call))


class in_thread(Generic[Instance, Arguments, Result]):  # noqa: N801 - used like a function
    """The async form of a method: same arguments, same result, same errors; it blocks a thread, not the event loop.

    If the awaiting coroutine is cancelled, the call continues in its thread, and its result is dropped: a control may
    still be accepted. Sending it again with the same `item_id` or `task_id` has no further effect.
    """

    def __init__(self, method: Callable[Concatenate[Instance, Arguments], Result]) -> None:
        self._method = method
        self.__doc__ = f"Do the same as `{method.__name__}`, for an event loop."

    def __get__(self, instance: Instance, owner: type[Instance]) -> Callable[Arguments, Coroutine[Any, Any, Result]]:
        """Return the bound async method."""

        async def call(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
            # Bound by name, so that a subclass or a test that replaces the method replaces its async form too.
            bound = getattr(instance, self._method.__name__)
            return await run_in_thread(partial(bound, *args, **kwargs))

        call.__name__ = f"a{self._method.__name__}"
        call.__doc__ = self.__doc__
        return call
