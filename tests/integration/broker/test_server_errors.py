"""Any error of the Redis of the state, or of the broker: no task fails, no worker exits, and work goes on after it."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from roboco import TransientError
from roboco.domain.status import TaskStatus
from roboco.local.valkey import ValkeyServer
from tests.support.journeys import GRAPH, PARALLEL, answer, shape
from tests.support.servers.model_server import Reply, Request
from tests.support.servers.refusing_redis import RefusingRedis
from tests.support.stack import Stack, until

pytestmark = [pytest.mark.workers, pytest.mark.slow]

LEASE = 2.0
ERRORS = (
    "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
    "NOPERM this user has no permissions to run the command",
    "ERR Proxy: upstream failure",
)


def _name_of(value: str | float) -> str:
    """Return the kind of an error, or how long it lasts."""
    return value.split()[0] if isinstance(value, str) else f"{value / LEASE:g} leases"


@pytest.fixture(scope="module")
def proxies() -> dict[str, RefusingRedis]:
    """The proxies of the running stack, before its state and before its broker."""
    return {}


@pytest.fixture(scope="module")
def stack(proxies: dict[str, RefusingRedis], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Workers and a client behind the proxies."""

    @contextmanager
    def around(valkey: ValkeyServer) -> Iterator[dict[str, Any]]:
        with RefusingRedis(valkey.port) as state, RefusingRedis(valkey.port) as broker:
            proxies.update(state=state, broker=broker)
            yield {"redis_url": state.url, "broker_url": broker.url}

    with Stack(tmp_path_factory.mktemp("stack"), around=around, lease_seconds=LEASE) as running:
        running.model.script(answer_slowly)
        yield running


def answer_slowly(request: Request) -> Reply:
    reply = answer(request)
    return Reply(text=reply.text, tool_calls=reply.tool_calls, interval=0.1)


CASES = [
    (server, error, seconds)
    for server in ("state", "broker")
    for error, seconds in ((ERRORS[0], LEASE / 2), *((error, 2 * LEASE) for error in ERRORS))
]
IN_EACH_RUN = [("state", ERRORS[1], 2 * LEASE), ("state", ERRORS[2], 2 * LEASE), ("broker", ERRORS[2], 2 * LEASE)]
"""Each server refuses for longer than a lease with an error that redis-py does not know, and the state with one that it
knows; the other errors are of the same classes."""


@pytest.mark.parametrize(
    ("server", "error", "seconds"),
    [pytest.param(*case, marks=[] if case in IN_EACH_RUN else pytest.mark.nightly) for case in CASES],
    ids=_name_of,
)
def test_work_waits_for_a_server_that_refuses_every_command(
    stack: Stack, proxies: dict[str, RefusingRedis], server: str, error: str, seconds: float
) -> None:
    pids = {pool: worker.pid for pool, worker in stack.workers.items()}
    tasks = [stack.orchestrator.run(journey.team, journey.prompt) for journey in (GRAPH, PARALLEL)]
    next(item for item in tasks[0].stream() if item.type == "text_part_delta")
    proxies[server].refuse(error)
    time.sleep(seconds)
    if server == "state":
        with pytest.raises(TransientError, match="; "):
            stack.orchestrator.run(GRAPH.team, GRAPH.prompt)
    proxies[server].accept()
    for task, journey in zip(tasks, (GRAPH, PARALLEL), strict=True):
        assert task.result(60).status is TaskStatus.COMPLETED
        assert shape(task.history()) == journey.expected
    assert pids == {pool: worker.pid for pool, worker in stack.workers.items()}
    assert all(worker.alive() for worker in stack.workers.values())
    assert proxies[server].refused


def test_why_names_the_redis_that_takes_no_writes(stack: Stack, proxies: dict[str, RefusingRedis]) -> None:
    """Reads are answered, as by a full Redis or a replica."""
    stack.model.script(lambda request: Reply(text="slowly " * 100, interval=0.1))
    task = stack.orchestrator.run(GRAPH.team, GRAPH.prompt)
    try:
        for server, kind in (("state", "redis refuses writes"), ("broker", "the broker takes no messages: redis")):
            proxies[server].refuse("OOM command not allowed when used memory > 'maxmemory'.", "SET$|LPUSH")
            until(lambda kind=kind: task.missing_worker().startswith(kind), 30, lambda: repr(task.missing_worker()))  # type: ignore[misc]
            proxies[server].accept()
    finally:
        proxies["state"].accept()
        proxies["broker"].accept()
        stack.model.script(answer_slowly)
        task.stop()
