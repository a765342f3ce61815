"""Calls: blocking calls of the client library, in bounded threads, each with a deadline.

    request ─► line ─► thread ─► answer
               (full: 503)  (deadline: 503, the thread goes on)

A slow store fills the line of one kind of calls. Requests of that kind get 503 with Retry-After then; the other kinds,
streams and health continue. An owner is a tenant, or a key without a tenant. Slow calls of one owner fill its part of a
line alone, and owners take turns at free threads: the others wait behind as many calls of it as it has threads.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, ParamSpec, TypeVar
from weakref import WeakValueDictionary

from roboco.gateway.problem import unavailable

OWNER: Final[ContextVar[str]] = ContextVar("roboco_owner", default="")
"""The owner of the calls of a request, set once its caller is known. Those of the process itself have none."""
RECEIVED: Final[ContextVar[int]] = ContextVar("roboco_received", default=0)
"""The bytes that a request has had so far."""
_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


@dataclass(frozen=True)
class LinePart:
    """The most of a line that the calls of one owner occupy."""

    threads: int
    waiting: int


class Turns:
    """Places in which `most` calls run, at most `of_owner` of each owner. Use it in one event loop.

    It refuses no call: each waits for its turn, behind at most `of_owner` calls of any other owner.
    """

    def __init__(self, most: int, of_owner: int) -> None:
        self._of_owner = of_owner
        self._all = asyncio.Semaphore(most)
        self._owners: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    async def take(self) -> Callable[[], None]:
        """Wait for a place for the owner of the request. Return the function that gives it back."""
        own = self._owners.setdefault(OWNER.get(), asyncio.Semaphore(self._of_owner))
        await own.acquire()
        try:
            await self._all.acquire()
        except asyncio.CancelledError:
            own.release()
            raise

        def give_back() -> None:
            self._all.release()
            own.release()

        return give_back

    @asynccontextmanager
    async def hold(self) -> AsyncIterator[None]:
        """Hold a place until the block ends."""
        give_back = await self.take()
        try:
            yield
        finally:
            give_back()


class CallLine:
    """The threads of one kind of calls: at most `threads` run, and `waiting` wait.

    With `of_owner` each owner has a part, and owners take turns at free threads. A call that has begun keeps its place
    until it ends, also after its deadline: while all threads hang, the line is full, and further requests are refused
    immediately. Calls without a deadline must end by themselves. Use it in one event loop.
    """

    def __init__(
        self, name: str, threads: int, waiting: int, deadline: float | None, of_owner: LinePart | None = None
    ) -> None:
        part = of_owner or LinePart(threads, waiting)
        self._name = name
        self._deadline = deadline
        self._limit = threads + waiting
        self._limit_of_owner = part.threads + part.waiting
        self._turns = Turns(threads, part.threads)
        self._open: Counter[str] = Counter()
        """The calls that wait or run, by owner."""
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=f"roboco-gateway-{name}")

    async def run(
        self, call: Callable[_Arguments, _Result], *args: _Arguments.args, **kwargs: _Arguments.kwargs
    ) -> _Result:
        """Return the result of the call. Raise Problem `unavailable` if the line is full or the deadline passes.

        A call that has begun goes on after the deadline. A control may be accepted then: repeat it with the same id.
        """
        owner = OWNER.get()
        self._check_place(owner)
        self._open[owner] += 1
        work: asyncio.Future[_Result] | None = None
        try:
            async with asyncio.timeout(self._deadline) as deadline:
                give_back = await self._turns.take()
                run = partial(copy_context().run, partial(call, *args, **kwargs))
                work = asyncio.get_running_loop().run_in_executor(self._pool, run)
                work.add_done_callback(partial(self._leave, owner, give_back))
                return await asyncio.shield(work)
        except TimeoutError:
            if not deadline.expired():
                raise  # the call's own
            raise unavailable(f"a server has not answered for {self._deadline or 0:g} s") from None
        finally:
            if work is None:
                self._leave(owner)

    def close(self) -> None:
        """Start no further call, and wait for none."""
        self._limit = 0
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _check_place(self, owner: str) -> None:
        """Raise Problem `unavailable` if the line, or the owner's part of it, is full."""
        if self._open.total() >= self._limit:
            raise unavailable(f"too many {self._name} calls wait for a server that answers slowly")
        if self._open[owner] >= self._limit_of_owner:
            raise unavailable(f"too many {self._name} calls of this caller, or of its tenant, wait")

    def _leave(
        self, owner: str, give_back: Callable[[], None] | None = None, work: "asyncio.Future[Any] | None" = None
    ) -> None:
        """Give up the place of a call that has ended, or that never begins."""
        self._open[owner] -= 1
        if not self._open[owner]:
            del self._open[owner]
        if give_back is not None:
            give_back()
        if work is not None and not work.cancelled():
            work.exception()  # it is retrieved, even if its request has gone


class Calls:
    """The kinds of calls of a gateway process."""

    def __init__(self, deadline: float) -> None:
        self.reads = CallLine("read", 24, 512, deadline, LinePart(16, 256))
        """Reads of tasks and lists. A caller with a hundred runs reads as many tasks at once."""
        self.histories = CallLine("history", 6, 512, deadline, LinePart(3, 256))
        """Reads that hold a whole history in memory: few at a time."""
        self.streams = CallLine("stream", 12, 4096, deadline, LinePart(8, 2048))
        """Looks for the tasks of streams: all clients of a process that has ended come at once, and all are served."""
        self.controls = CallLine("control", 24, 1024, deadline, LinePart(16, 512))
        """Submissions and controls: no slow read delays a stop, and hundreds at once have room."""
        self.files = CallLine("file", 12, 64, deadline, LinePart(8, 32))
        """Pieces of files that are read."""
        self.uploads = CallLine("upload", 16, 0, None, LinePart(8, 0))
        """Whole uploads. Each occupies a thread until its client has sent all, or is too slow."""
        self.keys = CallLine("key", 4, 32, deadline)
        """Reads of keys that this process has not seen: a flood of wrong keys fills this line alone."""
        self.tokens = CallLine("token", 1, 4, deadline)
        """Reads of the keys of an OIDC provider, one at a time."""
        self.operations = CallLine("operation", 4, 16, deadline)
        """Reads of queues, workers and dead letters: a broker that hangs delays no read of a task."""
        self.reports = CallLine("report", 2, 6, deadline, LinePart(1, 2))
        """Parts of reports of usage, which read many tasks."""
        self.limits = CallLine("limit", 8, 256, deadline)
        """Counts of requests, streams and usage, in Redis."""

    def close(self) -> None:
        """Start no further call."""
        for line in vars(self).values():
            if isinstance(line, CallLine):
                line.close()
