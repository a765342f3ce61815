"""Celery tasks of a shop as tools: the shop has Celery and not Roboco, with and without a result backend."""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from roboco import Task, Team, parse_team
from roboco.allowlist import Allowlist
from roboco.local.process import start_server
from tests.conftest import need
from tests.support.documents import example
from tests.support.servers.model_server import Reply, Request
from tests.support.servers.rabbitmq import RabbitServer, find_rabbitmq, start_rabbitmq
from tests.support.stack import Stack, until

pytestmark = [pytest.mark.workers, pytest.mark.slow]

ALLOWLIST = Allowlist(tasks=("docs.parse@parsing", "docs.flaky@parsing", "docs.durable@parsing", "docs.parse@unread"))
PARAMETERS = {"type": "object", "properties": {"file": {"type": "string"}}, "required": ["file"]}


def team(task: str = "docs.parse", **fields: Any) -> Team:
    tool = {"name": "parse", "task": task, "queue": "parsing", "description": "Parse.", "parameters": PARAMETERS}
    agents = [{"name": "reader", "prompt": "reader", "tools": ["parse"]}]
    return parse_team({"name": "desk", "agents": agents, "tools": [tool | fields]})


def answer(request: Request) -> Reply:
    if request.tool_results:
        return Reply(text=f"read: {request.tool_results[0][1]}")
    return Reply(tool_calls=[("parse", {"file": request.last_user})])


@pytest.fixture(scope="module")
def rabbit(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitServer]:
    need(find_rabbitmq)
    server = start_rabbitmq(tmp_path_factory.mktemp("rabbitmq"))
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture(
    scope="module",
    params=[
        "redis and results",
        "rabbitmq",
        *(pytest.param(kind, marks=pytest.mark.nightly) for kind in ("redis", "rabbitmq for all")),
    ],
)
def stack(request: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Yield workers of Roboco and of a shop, on one broker or on two. One kind of each broker is in every run."""
    kind: str = request.param
    changes: dict[str, Any] = {"allowlist": ALLOWLIST}
    if "rabbitmq" in kind:
        url = request.getfixturevalue("rabbit").url
        changes["broker_url" if kind == "rabbitmq for all" else "callback_broker_url"] = url
    with Stack(tmp_path_factory.mktemp("stack"), **changes) as running:
        running.model.script(answer)
        shop = running.settings.callback_broker_url or running.settings.broker
        results = running.valkey.url if kind == "redis and results" else ""
        start_shop(running, SHOP_URL=shop, SHOP_RESULTS=results)
        yield running


def start_shop(stack: Stack, **variables: str) -> None:
    os.environ["CELERY_QUEUES"] = ""
    stack.start("shop", modules="tests.support.plain_shops", **variables)
    stack.wait_ready("shop")


def lines(stack: Stack, word: str) -> list[str]:
    path = stack.folder / "shop.txt"
    return [line for line in path.read_text().splitlines() if word in line] if path.exists() else []


def result_of(task: Task) -> Any:
    assert task.result(60).status == "completed"
    [result] = task.history()[2].results
    return result


def test_the_result_of_a_celery_task_answers_the_call(stack: Stack) -> None:
    task = stack.orchestrator.run(team(), "a.pdf")
    assert result_of(task).result == {"pages": 3, "file": "a.pdf"}
    [line] = lines(stack, "parse a.pdf")
    assert line.split()[2].startswith(f"{task.task_id}/0002/shop/tc_")
    assert "roboco" not in Path("tests/support/plain_shops/shop.py").read_text().replace("nothing of Roboco", "")


@pytest.mark.parametrize("effect", ["pure", "irreversible"])
def test_a_failure_is_an_error_that_names_the_celery_task(stack: Stack, effect: str) -> None:
    error = str(result_of(stack.orchestrator.run(team(effect=effect), "broken")).error)
    assert "Celery task docs.parse" in error
    assert ("outcome unknown" in error) is (effect == "irreversible")


def test_a_result_that_is_no_json_is_an_error(stack: Stack) -> None:
    assert "docs.parse" in str(result_of(stack.orchestrator.run(team(effect="pure"), "odd")).error)


def test_a_celery_task_that_the_shop_retries_answers_once(stack: Stack) -> None:
    task = stack.orchestrator.run(team("docs.flaky"), "b.pdf")
    assert result_of(task).result == "read b.pdf"
    assert len(lines(stack, "flaky b.pdf")) == 3


def test_a_celery_task_whose_process_dies_is_an_error_or_runs_again(stack: Stack) -> None:
    killed = stack.orchestrator.run(team(effect="pure"), "killer")
    kept = stack.orchestrator.run(team("docs.durable"), "c.pdf")
    assert "failed, or its process was lost" in str(result_of(killed).error)
    assert result_of(kept).result == "kept c.pdf"


@pytest.mark.parametrize(("file", "error"), [("ignored", "has not answered within its 3 s"), ("rejected", "failed")])
def test_a_celery_task_that_ends_without_a_result_has_an_unknown_outcome(stack: Stack, file: str, error: str) -> None:
    result = result_of(stack.orchestrator.run(team(timeout=3), file))
    assert str(result.error).startswith("outcome unknown: Celery task docs.parse")
    assert error in str(result.error)


def test_a_stop_ends_the_celery_task_where_the_team_asks(stack: Stack) -> None:
    (stack.folder / "go").unlink(missing_ok=True)
    task = stack.orchestrator.run(team(on_stop="terminate", timeout=90), "slow")
    until(lambda: lines(stack, f"parse slow {task.task_id}"), 20, "the shop works")
    task.stop()
    until(lambda: f"Terminating {task.task_id}/" in stack.log("shop"), 20, "the shop has ended the Celery task")
    assert task.result(20).status == "cancelled"


def test_a_message_that_no_worker_takes_is_a_time_out(stack: Stack) -> None:
    result = result_of(stack.orchestrator.run(team(queue="unread", effect="pure", timeout=3), "a.pdf"))
    expected = (
        "no queue 'unread'" if "amqp" in str(stack.settings.callback_broker_url or stack.settings.broker) else "3 s"
    )
    assert expected in str(result.error)


def slow_lines(stack: Stack, tasks: list[Task]) -> list[str]:
    return [line for line in lines(stack, "parse slow") if any(task.task_id in line for task in tasks)]


def test_killed_coordinators_and_a_killed_shop_lose_no_answer(stack: Stack) -> None:
    (stack.folder / "go").unlink(missing_ok=True)
    tasks = [stack.orchestrator.run(team(effect="pure", timeout=90), "slow") for _ in range(2)]
    until(lambda: len(slow_lines(stack, tasks)) == 2, 20, "the shop works")
    until(lambda: "docs.parse" in stack.describe_task(tasks[0].task_id), 20, "the task says what it waits for")
    stack.kill("coordinator", signal.SIGKILL)
    stack.workers["coordinator"].process.wait()
    (stack.folder / "go").touch()
    stack.start("coordinator")
    assert [result_of(task).result["pages"] for task in tasks] == [3, 3]


def test_the_example_of_the_guide_runs(tmp_path: Path) -> None:
    (tmp_path / "shop_docs.py").write_text(example("file", "shop_docs.py"))
    (tmp_path / "parse.yaml").write_text(example("file", "parse.yaml"))
    with Stack(tmp_path, allowlist=Allowlist(tasks=("docs.parse@parsing",))) as started:
        started.model.script(answer)
        command = [sys.executable, "-m", "celery", "-A", "shop_docs", "worker", "-Q", "parsing", "-c", "1"]
        log = tmp_path / "guide.log"
        started.workers["guide"] = start_server("guide", command, env=started.environment, log=log, cwd=tmp_path)
        task = started.orchestrator.run(tmp_path / "parse.yaml", "a.pdf")
        assert result_of(task).result == {"file": "a.pdf", "pages": 3}
