"""A shop whose environment has the lowest versions of the client's dependencies, beside workers with the newest."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from roboco.local.process import start_server
from tests.support.servers.model_server import Reply
from tests.support.stack import LONG_LEASE, ROOT, Stack, until

LOWEST = os.environ.get("LOWEST_PYTHON", "")
"""The interpreter of that environment, which `.ci/lowest` makes."""
pytestmark = [
    pytest.mark.workers,
    pytest.mark.slow,
    pytest.mark.skipif(not LOWEST, reason="LOWEST_PYTHON names no interpreter with the lowest versions"),
]

CLIENT = """
import asyncio
from roboco import Orchestrator, parse_team

async def last_of(stream):
    return [item.type async for item in stream][-1]

with Orchestrator() as orchestrator:
    task = orchestrator.run(parse_team({team}), "hello", conversation=True, tenant="acme", priority="high")
    assert task.result(60).status == "user_turn"
    task.send("once more")
    assert task.result(60).status == "user_turn"
    task.stop()
    assert task.result(60).status == "cancelled"
    assert [item.type for item in task.stream()][-1] == "event_task_end"
    assert asyncio.run(last_of(task.astream())) == "event_task_end"
    print("".join(task.text()))
"""
CANVAS = """
import os
from celery import chain
import roboco
from tests.support.celery_shops import shop_app

app = shop_app(os.environ["ROBOCO_REDIS_URL"])
team = roboco.team({team}, app=app)
result = chain(app.signature("shop.fetch", ("tides",)), team.s(), app.signature("shop.publish")).apply_async()
print(result.get(timeout=60))
"""
TEAM = {"name": "echo", "agents": [{"name": "echo", "prompt": "You repeat."}]}


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with Stack(tmp_path_factory.mktemp("lowest"), lease_seconds=LONG_LEASE) as running:
        running.model.script(lambda request: Reply(text=f"{request.last_user}!"))
        yield running


def run_with_lowest(stack: Stack, program: str) -> str:
    """Return the output of a program in the environment with the lowest versions."""
    command = [LOWEST, "-W", "error::DeprecationWarning", "-c", program.replace("{team}", repr(TEAM))]
    done = subprocess.run(command, env=stack.environment, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_client_submits_follows_and_controls_a_task(stack: Stack) -> None:
    assert run_with_lowest(stack, CLIENT) == "hello!once more!\n"


def test_a_team_in_a_canvas_continues_it(stack: Stack, tmp_path: Path) -> None:
    log = tmp_path / "shop.log"
    command = [LOWEST, "-m", "celery", "-A", "tests.support.celery_shops.shop", "worker", "-l", "INFO", "-n", "shop"]
    shop = start_server("shop", command, env=stack.environment, log=log, cwd=ROOT)
    try:
        until(lambda: " ready." in log.read_text(), 60, "the worker of the shop is ready")
        assert run_with_lowest(stack, CANVAS) == "{'published': 'notes on tides!'}\n"
    finally:
        shop.stop()
