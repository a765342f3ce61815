"""Tenants, priorities and schedules with real workers: who goes first when much waits."""

import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from roboco import Orchestrator, Overloaded, Settings, Task, UsageError, parse_team
from roboco.adapters.local.process import start_server
from tests.support.servers.model_server import Reply, Request
from tests.support.stack import LONG_LEASE, ROOT, Stack, until

pytestmark = [pytest.mark.workers, pytest.mark.redis, pytest.mark.slow]
ECHO = {"name": "echo", "agents": [{"name": "echo", "prompt": "You repeat."}]}
TEAM = parse_team(ECHO)
FLOOD = 60


class Gate:
    """Turns that are begun and not let through; `asked` are their prompts in order."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.asked: list[str] = []

    def answer(self, request: Request) -> Reply:
        """Not before the gate is open."""
        self.asked.append(request.last_user)
        return Reply(text=request.last_user, held_until=self.open)


@pytest.fixture
def narrow(tmp_path: Path) -> Iterator[Stack]:
    """A stack whose agents worker makes one turn at a time."""
    (tmp_path / "teams").mkdir()
    (tmp_path / "teams" / "echo.yaml").write_text("name: echo\nagents: [{name: echo, prompt: You repeat.}]\n")
    with Stack(tmp_path, agents_concurrency=1, lease_seconds=LONG_LEASE, teams_dir=tmp_path / "teams") as stack:
        yield stack


def of_tenant(stack: Stack, tenant: str) -> Orchestrator:
    return Orchestrator(stack.settings.model_copy(update={"tenant": tenant}))


def turns_sent(stack: Stack) -> list[str]:
    """The tasks whose turn is announced, or made."""
    return [task.task_id for task in stack.orchestrator.tasks() if task.status == "running"]


def test_a_flood_of_one_tenant_does_not_delay_another(narrow: Stack) -> None:
    gate = Gate()
    narrow.model.script(gate.answer)
    dispatcher = narrow.orchestrator._engine.dispatcher
    with of_tenant(narrow, "flood") as flood, of_tenant(narrow, "other") as other:
        tasks = [flood.run(TEAM, f"flood {number}") for number in range(FLOOD)]
        until(lambda: len(turns_sent(narrow)) == FLOOD, 60, "one runs, some are on their way, the rest waits")
        tasks += [other.run(TEAM, f"mine {number}") for number in range(3)]
        until(lambda: dispatcher.backlog("other:any") == 3, 30, "mine wait")
        gate.open.set()
        for task in tasks:
            assert task.result(120).status == "completed"
    assert len(gate.asked) == len(set(gate.asked)) == FLOOD + 3
    assert max(gate.asked.index(f"mine {number}") for number in range(3)) < FLOOD / 2


def test_what_is_urgent_goes_first(narrow: Stack) -> None:
    gate = Gate()
    narrow.model.script(gate.answer)
    run = narrow.orchestrator.run
    before = [run(TEAM, f"before {number}") for number in range(8)]  # one runs, some are on their way, the rest waits
    engine = narrow.orchestrator._engine
    until(lambda: engine.dispatcher.backlog("any") >= 1 and len(turns_sent(narrow)) == 8, 30, "a turn waits")
    later = [
        run(TEAM, f"{priority} {number}", priority=priority)
        for priority in ("low", "normal", "high")
        for number in range(2)
    ]
    until(lambda: len(turns_sent(narrow)) == 14, 30, "all turns are announced")
    until(lambda: engine.dispatcher.backlog("any") >= 6, 30, "all of the later ones wait")
    gate.open.set()
    for task in [*before, *later]:
        assert task.result(60).status == "completed"
    later_ones = [prompt for prompt in gate.asked if not prompt.startswith("before")]
    assert later_ones == ["high 0", "high 1", "normal 0", "normal 1", "low 0", "low 1"]
    assert gate.asked[-2:] == ["low 0", "low 1"]


def test_no_new_task_is_taken_when_too_much_waits(narrow: Stack) -> None:
    gate = Gate()
    narrow.model.script(gate.answer)
    limited = Orchestrator(narrow.settings.model_copy(update={"max_queued": 3}))
    with limited:
        taken: list[Task] = []

        def full() -> bool:
            try:
                taken.append(limited.run(TEAM, f"task {len(taken)}"))
            except Overloaded as error:
                return "turns wait for workers, at most 3 may" in str(error)
            return False

        until(full, 30, "the workers have enough to do")
        gate.open.set()
        for task in taken:
            assert task.result(60).status == "completed"
        until(lambda: limited._engine.dispatcher.backlog("any") == 0, 20, "nothing waits")
        assert limited.run(TEAM, "again").result(60).status == "completed"


def test_a_tenant_knows_its_own_tasks(narrow: Stack) -> None:
    narrow.model.script(lambda request: Reply(text="done"))
    with of_tenant(narrow, "acme") as acme, of_tenant(narrow, "other") as other:
        task = acme.run(TEAM, "go", task_id="order-1")
        assert task.task_id == "acme:order-1"
        assert task.result(60).status == "completed"
        assert acme.task("order-1").history() == acme.task("acme:order-1").history() == task.history()
        assert [summary.task_id for summary in acme.tasks()] == ["acme:order-1"]
        assert list(other.tasks()) == []
        for name in ("acme:order-1", "order-1"):
            with pytest.raises(UsageError, match=r"no task|is not one of tenant"):
                other.task(name)
        assert task.fork(message="again").task_id.startswith("acme:task_")
        with pytest.raises(UsageError, match="dead letters are the operator's"):
            acme.dead_letters()
        with pytest.raises(UsageError, match="is not one of tenant 'acme'"):
            narrow.orchestrator.task("acme:order-1").fork(task_id="other:mine")
    keys = list(narrow.orchestrator._client.scan_iter("*order-1*"))
    assert keys
    assert all(str(key).startswith("roboco:{acme:order-1}") for key in keys)
    assert (Path(narrow.settings.workspace.removeprefix("file://")) / "acme:order-1").is_dir()


BEAT = """
from celery import Celery
app = Celery("shop", broker={broker!r})
app.conf.beat_schedule = {{
    "every second": {{
        "task": "roboco.submit",
        "schedule": 1.0,
        "kwargs": {{"team": "echo", "prompt": "what is new?", "tenant": "acme"}},
        "options": {{"queue": "roboco.coordinator"}},
    }}
}}
"""


def test_a_schedule_of_celery_beat(narrow: Stack, tmp_path: Path) -> None:
    narrow.model.script(lambda request: Reply(text="nothing"))
    (tmp_path / "shop_beat.py").write_text(BEAT.format(broker=narrow.settings.broker))
    command = [
        sys.executable,
        "-m",
        "celery",
        "-A",
        "shop_beat",
        "beat",
        "-s",
        str(tmp_path / "schedule"),
        "--pidfile=",
    ]
    path = f"{tmp_path}:{ROOT}"
    beat = start_server(
        "beat", command, env=narrow.environment | {"PYTHONPATH": path}, log=tmp_path / "beat.log", cwd=tmp_path
    )
    try:
        with of_tenant(narrow, "acme") as acme:
            until(lambda: sum(one.status == "completed" for one in acme.tasks()) >= 2, 30, "two were made")
    finally:
        beat.stop()


def test_a_tenant_must_be_a_name() -> None:
    with pytest.raises(ValueError, match="tenant"):
        Settings(tenant="A/B")
