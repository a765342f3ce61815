"""An agent of a2a-sdk, as a delegate: its task ends with the turn, also if the turn has lost its worker."""

import json
import signal
from collections.abc import Iterator

import pytest

from roboco import Task, TaskStatus
from roboco.allowlist import Allowlist
from roboco.domain.history.step import REMOTE_TASK
from roboco.local.process import free_port
from tests.support.servers.a2a_sdk_agent import PATH, SdkAgent, sdk_agent
from tests.support.servers.model_server import Reply, Request
from tests.support.stack import Stack, until

pytestmark = pytest.mark.workers


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Stack, SdkAgent]]:
    """Yield workers whose team `chief` has the agent as a member and as a delegate."""
    folder, port = tmp_path_factory.mktemp("stack"), free_port()
    (teams := folder / "teams").mkdir()
    address = f"http://127.0.0.1:{port}{PATH}"
    words = {"model": "words", "provider": "a2a", "base_url": address}
    models = {"own": {"model": "scripted", "default": True}, "words": words}
    chief = {
        "name": "chief",
        "models": models,
        "agents": [{"name": "chief", "prompt": "x", "delegates": ["a2a:words"]}],
    }
    alone = {"name": "alone", "models": models, "agents": [{"name": "words", "prompt": "x", "model": "words"}]}
    for team in (chief, alone):
        (teams / f"{team['name']}.json").write_text(json.dumps(team))
    with Stack(folder, teams_dir=teams, allowlist=Allowlist(model_servers=(address,))) as started:
        started.model.script(_delegating)
        with sdk_agent(port) as agent:
            yield started, agent


def _delegating(request: Request) -> Reply:
    if "delegate" in request.tools and not request.tool_results:
        return Reply(tool_calls=[("delegate", {"team": "a2a:words", "prompt": request.last_user})])
    return Reply(text="done")


def read_words(task: Task) -> None:
    """Return once a follower has read text of the remote agent."""
    for item in task.stream(subtasks=True):
        if item.type == "text_part_delta" and "word" in item.data.text:
            return


def remote_tasks(task: Task) -> list[str]:
    """Return the states of the remote tasks that the steps name."""
    return [step.metadata[REMOTE_TASK]["state"] for step in task.history() if REMOTE_TASK in step.metadata]


def test_an_interruption_cancels_the_task_and_another_one_follows(stack: tuple[Stack, SdkAgent]) -> None:
    task = stack[0].orchestrator.run("alone", "say words")
    read_words(task)
    task.interrupt("a short one")
    until(lambda: task.summary().status.ended, 60, "the task ends")
    assert task.history()[-1].text == "word0 word1 "
    assert remote_tasks(task) == ["canceled"]
    assert not stack[1].running


def test_a_stop_cancels_the_task_of_a_delegate(stack: tuple[Stack, SdkAgent]) -> None:
    task = stack[0].orchestrator.run("chief", "say words")
    read_words(task)
    task.stop("enough")
    assert task.result(60).status is TaskStatus.CANCELLED
    until(lambda: not stack[1].running, 60, "the remote task is cancelled")


def test_a_stop_without_a_worker_cancels_the_task_once_there_is_one(stack: tuple[Stack, SdkAgent]) -> None:
    before = len(stack[1].messages)
    task = stack[0].orchestrator.run("alone", "say words")
    read_words(task)
    stack[0].kill("agents", signal.SIGKILL)
    task.stop("enough")
    assert stack[1].running
    stack[0].start("agents")
    assert task.result(120).status is TaskStatus.CANCELLED
    assert not stack[1].running
    assert remote_tasks(task) == ["canceled"]
    assert len(stack[1].messages) == before + 1
