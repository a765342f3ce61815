"""Calls: blocking calls of the client library, in bounded threads, each with a deadline.

    request ─► line ─► thread ─► answer
               (full: 503)  (deadline: 503, the thread goes on)

A slow store fills the line of one kind of calls. Requests of that kind get 503 with Retry-After then; the other kinds,
streams and health continue. An owner is a tenant, or a key without a tenant. Slow calls of one owner fill its part of a
line alone, and owners take turns at free threads: the others wait behind one call of each, and not behind all.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager, suppress
from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, ParamSpec, TypeVar
from weakref import WeakValueDictionary

from roboco.gateway.problem import RETRY_SECONDS, rate_limited, unavailable

UPLOADS: Final = 16
"""Uploads of a process at the same time."""
UPLOADS_OF_OWNER: Final = 8
"""Those of one tenant, or of one key without a tenant: the others can still upload."""

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


@dataclass(eq=False)
class _Call:
    """A call, from its request to its end."""

    work: Callable[[], Any]
    owner: str
    result: "asyncio.Future[Any]"


class CallLine:
    """The threads of one kind of calls: at most `threads` run, and `waiting` wait.

    With `of_owner` each owner has a part: a thread that is free takes a call of the owner who has waited longest since
    its last turn. A call that has begun keeps its place until it ends, also after its deadline: while all threads hang,
    the line is full, and further requests are refused immediately. Calls without a deadline must end by themselves. Use
    it in one event loop.
    """

    def __init__(
        self, name: str, threads: int, waiting: int, deadline: float | None, of_owner: LinePart | None = None
    ) -> None:
        self.name = name
        self._threads = threads
        self._limit = threads + waiting
        self._deadline = deadline
        self._part = of_owner
        self._open = 0
        self._running: Counter[str] = Counter()
        self._waiting: dict[str, dict[_Call, None]] = {}
        """The calls that wait, in order, by owner; the owner whose turn is next is the first."""
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=f"roboco-gateway-{name}")
        self._closed = False

    async def run(
        self, call: Callable[_Arguments, _Result], *args: _Arguments.args, **kwargs: _Arguments.kwargs
    ) -> _Result:
        """Return the result of the call. Raise Problem `unavailable` if the line is full or the deadline passes.

        A call that has begun goes on after the deadline. A control may be accepted then: repeat it with the same id.
        """
        owner = "" if self._part is None else OWNER.get()
        self._check_place(owner)
        result: asyncio.Future[_Result] = asyncio.get_running_loop().create_future()
        result.add_done_callback(_retrieve)
        entered = _Call(partial(copy_context().run, partial(call, *args, **kwargs)), owner, result)
        self._open += 1
        self._waiting.setdefault(owner, {})[entered] = None
        self._start_calls()
        try:
            async with asyncio.timeout(self._deadline):
                return await asyncio.shield(result)
        except TimeoutError:
            if result.done() and not result.cancelled():
                return result.result()  # the call's own TimeoutError, or an answer at the last moment
            self._withdraw(entered)  # a call that has not begun never begins
            raise unavailable(f"a server has not answered for {self._deadline or 0:g} s") from None

    def close(self) -> None:
        """Start no further call, and wait for none."""
        self._closed = True
        self._pool.shutdown(wait=False, cancel_futures=True)
        for calls in self._waiting.values():
            for call in calls:
                call.result.cancel()

    def _check_place(self, owner: str) -> None:
        """Raise Problem `unavailable` if the line, or the owner's part of it, is full."""
        full = f"too many {self.name} calls wait for a server that answers slowly"
        if self._closed or self._open >= self._limit:
            raise unavailable(full)
        if self._part is not None:
            waiting = len(self._waiting.get(owner, ()))
            if self._running[owner] + waiting >= self._part.threads + self._part.waiting:
                raise unavailable(f"too many {self.name} calls of this caller, or of its tenant, wait")

    def _start_calls(self) -> None:
        """Give the free threads to the owners in turn. Cost: O(owners that have all their threads), which are few."""
        of_owner = self._threads if self._part is None else self._part.threads
        while not self._closed and self._running.total() < self._threads:
            owner = next((owner for owner in self._waiting if self._running[owner] < of_owner), None)
            if owner is None:
                return
            self._start(self._take(owner))

    def _take(self, owner: str) -> _Call:
        """Return the first call of the owner, whose next one waits for all other owners."""
        calls = self._waiting.pop(owner)
        call = next(iter(calls))
        del calls[call]
        if calls:
            self._waiting[owner] = calls
        return call

    def _start(self, call: _Call) -> None:
        self._running[call.owner] += 1
        work = self._pool.submit(call.work)
        work.add_done_callback(partial(self._ended, asyncio.get_running_loop(), call))

    def _ended(self, loop: asyncio.AbstractEventLoop, call: _Call, work: "Future[Any]") -> None:
        """Report the end of a call, in its thread."""
        with suppress(RuntimeError):  # the loop is closed: the process ends
            loop.call_soon_threadsafe(self._finish, call, work)

    def _finish(self, call: _Call, work: "Future[Any]") -> None:
        """Give the place of a call that has ended to another one, and its result to its request."""
        self._open -= 1
        self._running[call.owner] -= 1
        if not self._running[call.owner]:
            del self._running[call.owner]
        self._start_calls()
        if call.result.done():
            return
        if work.cancelled():
            call.result.cancel()
        elif (error := work.exception()) is not None:
            call.result.set_exception(error)
        else:
            call.result.set_result(work.result())

    def _withdraw(self, call: _Call) -> None:
        """Give up the place of a call that has not begun."""
        calls = self._waiting.get(call.owner, {})
        if call in calls:
            del calls[call]
            self._open -= 1
            if not calls:
                del self._waiting[call.owner]


def _retrieve(future: "asyncio.Future[Any]") -> None:
    """Mark the exception of a call as retrieved, even if its request has gone."""
    if not future.cancelled():
        future.exception()


class Shares:
    """The open calls of each owner, so that none occupies all threads of a line. Use it in one event loop."""

    def __init__(self, name: str, most: int) -> None:
        self._name = name
        self._most = most
        self._open: Counter[str] = Counter()

    @contextmanager
    def hold(self, owner: str) -> Iterator[None]:
        """Count a call of the owner until the block ends. Raise Problem `rate_limited` if there are too many."""
        if self._open[owner] >= self._most:
            raise rate_limited(f"{self._name} at the same time", RETRY_SECONDS)
        self._open[owner] += 1
        try:
            yield
        finally:
            self._open[owner] -= 1
            if not self._open[owner]:
                del self._open[owner]


class Turns:
    """Places in which `most` calls wait or run, at most `of_owner` of each owner. Use it in one event loop.

    Unlike a line it refuses no call: each waits for its turn, behind at most `of_owner` calls of any other owner.
    """

    def __init__(self, most: int, of_owner: int) -> None:
        self._of_owner = of_owner
        self._all = asyncio.Semaphore(most)
        self._owners: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    @asynccontextmanager
    async def hold(self) -> AsyncIterator[None]:
        """Hold a place for the owner of the request until the block ends."""
        own = self._owners.setdefault(OWNER.get(), asyncio.Semaphore(self._of_owner))
        async with own, self._all:
            yield


class Calls:
    """The kinds of calls of a gateway process."""

    def __init__(self, deadline: float) -> None:
        self.reads = CallLine("read", 24, 128, deadline, LinePart(16, 64))
        """Reads of tasks and lists."""
        self.histories = CallLine("history", 6, 128, deadline, LinePart(3, 64))
        """Reads that hold a whole history in memory: few at a time."""
        self.streams = CallLine("stream", 12, 4096, deadline, LinePart(8, 2048))
        """Looks for the tasks of streams: all clients of a process that has ended come at once, and all are served."""
        self.controls = CallLine("control", 24, 128, deadline, LinePart(16, 64))
        """Submissions and controls: a slow read of another caller does not delay a stop."""
        self.files = CallLine("file", 12, 64, deadline, LinePart(8, 32))
        """Pieces of files that are read."""
        self.uploads = CallLine("upload", UPLOADS, 0, None)
        """Whole uploads. Each occupies a thread until its client has sent all, or is too slow."""
        self.upload_shares = Shares("uploads", UPLOADS_OF_OWNER)
        """The uploads of each owner: slow ones of one client do not keep all others from uploading."""
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
        for line in (
            self.reads,
            self.histories,
            self.streams,
            self.controls,
            self.files,
            self.uploads,
            self.keys,
            self.tokens,
            self.operations,
            self.reports,
            self.limits,
        ):
            line.close()
