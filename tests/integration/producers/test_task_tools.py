"""Celery tasks of a shop as tools: the shop has Celery and not Roboco, with and without a result backend."""

import os
import signal
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from roboco import Task, Team, parse_team
from roboco.allowlist import Allowlist
from tests.conftest import need
from tests.support.servers.model_server import Reply, Request
from tests.support.servers.rabbitmq import RabbitServer, find_rabbitmq, start_rabbitmq
from tests.support.stack import Stack, until

pytestmark = [pytest.mark.workers, pytest.mark.slow]

ALLOWLIST = Allowlist(tasks=("docs.parse@parsing", "docs.flaky@parsing", "docs.durable@parsing", "docs.parse@nobody"))
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


@pytest.fixture(scope="module", params=["redis", "redis and results", "other redis", "rabbitmq", "rabbitmq for all"])
def stack(request: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Yield workers of Roboco and of a shop, on one broker or on two."""
    kind: str = request.param
    changes: dict[str, Any] = {"allowlist": ALLOWLIST}
    if "rabbitmq" in kind:
        url = request.getfixturevalue("rabbit").url
        changes["broker_url" if kind == "rabbitmq for all" else "callback_broker_url"] = url
    around = _other_database if kind == "other redis" else None
    with Stack(tmp_path_factory.mktemp("stack"), around=around, **changes) as running:
        running.model.script(answer)
        shop = running.settings.callback_broker_url or running.settings.broker
        results = running.valkey.url if kind == "redis and results" else ""
        start_shop(running, SHOP_URL=shop, SHOP_RESULTS=results)
        yield running


def start_shop(stack: Stack, **variables: str) -> None:
    os.environ["CELERY_QUEUES"] = ""
    stack.start("shop", modules="tests.support.plain_shops", **variables)
    stack.wait_ready("shop")


def _other_database(valkey: Any) -> Any:

    return nullcontext({"callback_broker_url": valkey.url.rpartition("/")[0] + "/9"})


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
    assert "the shop's Celery task docs.parse" in error
    assert ("outcome unknown" in error) is (effect == "irreversible")


@pytest.mark.parametrize("file", ["odd", "large"])
def test_a_result_that_is_no_json_or_too_large_is_an_error(stack: Stack, file: str) -> None:
    assert "docs.parse" in str(result_of(stack.orchestrator.run(team(effect="pure"), file)).error)


def test_a_celery_task_that_the_shop_retries_answers_once(stack: Stack) -> None:
    task = stack.orchestrator.run(team("docs.flaky"), "b.pdf")
    assert result_of(task).result == "read b.pdf"
    assert len(lines(stack, "flaky b.pdf")) == 3


def test_a_celery_task_whose_process_dies_is_an_error_or_runs_again(stack: Stack) -> None:
    killed = stack.orchestrator.run(team(effect="pure"), "killer")
    kept = stack.orchestrator.run(team("docs.durable"), "c.pdf")
    assert "failed, or its process was lost" in str(result_of(killed).error)
    assert result_of(kept).result == "kept c.pdf"


@pytest.mark.parametrize("file", ["ignored", "rejected"])
def test_a_celery_task_that_ends_without_a_result_is_a_time_out(stack: Stack, file: str) -> None:
    result = result_of(stack.orchestrator.run(team(timeout=3), file))
    assert str(result.error).startswith("outcome unknown: the shop's Celery task docs.parse")
    assert "has not answered within its 3 s" in str(result.error)


def test_a_message_that_no_worker_takes_is_a_time_out(stack: Stack) -> None:
    result = result_of(stack.orchestrator.run(team(queue="nobody", effect="pure", timeout=3), "a.pdf"))
    expected = (
        "no queue 'nobody'" if "amqp" in str(stack.settings.callback_broker_url or stack.settings.broker) else "3 s"
    )
    assert expected in str(result.error)


def test_a_celery_task_that_the_operator_does_not_allow_is_not_sent(stack: Stack) -> None:
    result = result_of(stack.orchestrator.run(team("docs.purge"), "a.pdf"))
    assert "'docs.purge@parsing' is not allowed: add it to tasks of ROBOCO_ALLOWLIST" in str(result.error)


def test_killed_coordinators_and_a_killed_shop_lose_no_answer(stack: Stack) -> None:
    (stack.folder / "go").unlink(missing_ok=True)
    tasks = [stack.orchestrator.run(team(effect="pure", timeout=90), "slow") for _ in range(2)]
    until(lambda: len(lines(stack, "parse slow")) >= 2, 20, "the shop works")
    until(lambda: "docs.parse" in stack.describe_task(tasks[0].task_id), 20, "the task says what it waits for")
    stack.kill("coordinator", signal.SIGKILL)
    stack.workers["coordinator"].process.wait()
    (stack.folder / "go").touch()
    stack.start("coordinator")
    assert [result_of(task).result["pages"] for task in tasks] == [3, 3]
