"""The view of `roboco top` on terminals of several sizes."""

import io
from dataclasses import replace

import pytest
from rich.console import Console
from rich.screen import Screen

from roboco.broker.names import QUEUES
from roboco.cli.top.snapshot import TaskRow, TopSnapshot
from roboco.cli.top.view import TopView
from roboco.client.operator.operations import QueueReport, WorkerReport
from roboco.domain.rate_report import RateReport
from roboco.redis.monitor import LiveTask

NOW = 1_800_000_000.0


def task(number: int) -> TaskRow:
    reason = "writer waits 12 s for the rate limit of model gpt\x1b[2J" if number == 1 else ""
    now = LiveTask(f"order-{number}", "running", "writer", 7, 1 + number % 2, True, reason, 1200, 340, 0.1, NOW - 90, 2)
    return TaskRow(now, "newsroom", 25.0)


def worker(pool: str, active: int, silent_for: float = 1.0, draining: bool = False) -> WorkerReport:
    return WorkerReport(
        name=f"celery@{pool}-1",
        pools=[pool],
        alive=silent_for < 10,
        silent_for=silent_for,
        active=active,
        running=[],
        draining=draining,
    )


def queue(number: int, waiting: int, oldest_age: float | None = None) -> QueueReport:
    return QueueReport(name=QUEUES[number], waiting=waiting, oldest_age=oldest_age)


SNAPSHOT = TopSnapshot(
    at=NOW,
    open_tasks=5000,
    dead_letters=2,
    tasks=tuple(map(task, range(50))),
    workers=(worker("agents", 4), worker("tools", 1, 60.0), worker("coordinator", 1, draining=True)),
    queues=(queue(0, 0), queue(1, 17, 42.0), queue(2, 0)),
    rates=(
        RateReport(
            model="gpt-5-mini",
            requests=290,
            max_requests=300,
            tokens=12000,
            max_tokens=200000,
            waiting=3,
            pause_left=4.0,
        ),
    ),
)


def render(snapshot: TopSnapshot, width: int, lines: int | None) -> list[str]:
    """Return the lines that a terminal of this size shows."""
    out = io.StringIO()
    view = TopView(snapshot, "redis://a/0", lines)
    console = Console(file=out, width=width, height=lines or 100, highlight=False, force_terminal=False)
    console.print(view if lines is None else Screen(view))
    return out.getvalue().splitlines()


STATUSES = ("running", "approval", "paused", "client_tool_turn", "user_turn", "queued")
LONG_IDS = replace(
    SNAPSHOT,
    tasks=tuple(
        replace(row, task=replace(row.task, task_id=f"task_{number:02d}{'c143a3' * 5}", status=STATUSES[number % 6]))
        for number, row in enumerate(SNAPSHOT.tasks)
    ),
    workers=tuple(
        one.model_copy(update={"name": f"{one.name}@worker-host-7d9f8b6c5-x2x9z"}) for one in SNAPSHOT.workers
    ),
    rates=(SNAPSHOT.rates[0].model_copy(update={"model": "/var/lib/models/SmolLM2-135M-Instruct.Q4_1.gguf"}),),
)


@pytest.mark.parametrize("width", [132, 110, 60])
def test_ids_are_shortened_and_words_are_not(width: int) -> None:
    found = render(LONG_IDS, width, 60)
    assert max(map(len, found)) <= width
    words = set(" ".join(found).split())
    assert words >= {*STATUSES, "waiting", "workers", "worker", "runs", "heard", "model", "task", "status", "agent"}
    assert sum("task_" in line for line in found) > 10
    names = [line.split()[0].rstrip("…") for line in found if line.startswith("task_")]
    assert len(set(names)) == len(names)


def test_a_worker_that_is_lost_or_drains_consumes_nothing() -> None:
    assert [SNAPSHOT.consumers(name) for name in QUEUES] == [0, 1, 0]
    record = SNAPSHOT.record()
    assert [one["alive"] for one in record["workers"]] == [True, False, True]
    assert [one["workers"] for one in record["queues"]] == [0, 1, 0]


def test_the_view_of_an_empty_stack_names_outages() -> None:
    unknown = TopSnapshot(NOW, queues=tuple(queue(number, 0) for number in range(3)), errors=("redis is away",))
    text = "\n".join(render(unknown, 80, 24))
    assert "open tasks are not known" in text
    assert "redis is away" in text
    empty = replace(unknown, open_tasks=0)
    assert "no task is open" in "\n".join(render(empty, 80, 24))
    assert "no worker is registered" in text
