"""Flower as an operator sees it: a search by id finds the work of a task with its states, and no prompt or text."""

import json
import signal
import threading
import urllib.parse
from collections.abc import Iterator
from typing import Any

import pytest
from celery import Celery

from roboco import Task
from roboco.broker.dispatcher import CALL_ID_CHARS
from roboco.broker.names import COORDINATOR_QUEUE
from roboco.client.wiring import producer_app
from roboco.domain.ids import call_id_at
from roboco.engine.workspace_records import team_as_data
from tests.support.flower import Flower, flower
from tests.support.journeys import PARALLEL
from tests.support.journeys import answer as journeys
from tests.support.servers.model_server import Reply, Request
from tests.support.stack import Stack, until

pytestmark = pytest.mark.workers

CANARY = "canary7f3a"
"""A text that only models may see: short, and in the form of a name."""
HANG = {"seconds": 30, "stubborn": True}
MAX_ATTEMPTS = 2
LEASE_SECONDS = 6.0
"""Seconds of a lease: a worker that is merely slow does not lose it, which would be another attempt."""
SPEAKER_MAY_END = threading.Event()
"""Set when the agent `speaker` may end its turn."""


def answer(request: Request) -> Reply:
    """Return the reply of the journeys, of an agent whose tool hangs, or of one that waits until it may end."""
    role = request.system.split()[0]
    if role == "hanger" and request.count("assistant") == 0:
        return Reply(tool_calls=[("hang", HANG)])
    if role == "limited":
        return Reply(status=429, text="slow down", headers={"Retry-After": "600"})
    if role == "speaker":
        return Reply(text="at last", held_until=SPEAKER_MAY_END)
    return journeys(request)


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with Stack(tmp_path_factory.mktemp("stack"), max_attempts=MAX_ATTEMPTS, lease_seconds=LEASE_SECONDS) as started:
        started.model.script(answer)
        yield started


@pytest.fixture(autouse=True)
def _hold_speaker() -> None:
    SPEAKER_MAY_END.clear()


@pytest.fixture(scope="module")
def seen(stack: Stack) -> Iterator[Flower]:
    with flower(stack) as running:
        yield running


def one_agent(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "agents": [{"name": name, "prompt": f"{name} of {CANARY}"} | more]}


def send(stack: Stack, name: str, **arguments: object) -> str:
    """Send as a service without Roboco does, whose Celery describes all arguments in the message, and return the id."""
    with Celery(broker=stack.settings.broker, set_as_current=False) as app:
        return str(app.send_task(name, kwargs=arguments, queue=COORDINATOR_QUEUE).id)


def submit(stack: Stack, task_id: str, team: dict[str, Any], prompt: str = CANARY) -> Task:
    """Submit the team, and return its task once it is in Redis."""
    send(stack, "roboco.submit", task_id=task_id, team=team, prompt=prompt, context={"secret": CANARY})
    until(lambda: stack.orchestrator._engine.tasks.task_store.load(task_id, 1), 60, f"{task_id} is in Redis")
    return stack.orchestrator.task(task_id)


def wait_for_states(seen: Flower, expected: dict[str, str], search: str) -> None:
    """Wait until a search finds exactly these turns and calls in these states."""

    def found() -> dict[str, str]:
        return {ident: state for ident, state in seen.states(search).items() if "/advance/" not in ident}

    until(lambda: found() == expected, 60, lambda: f"{expected}, but {found()}")


def test_a_search_finds_everything_of_a_task_in_order(stack: Stack, seen: Flower) -> None:
    for task_id in ("order-17", "order-170"):
        task = submit(stack, task_id, team_as_data(PARALLEL.team))
    assert task.result(60).status == "completed"
    assert stack.orchestrator.task("order-17").result(60).status == "completed"
    steps = list(stack.orchestrator.task("order-17").history())
    expected: list[str] = []
    for step in steps:
        calls = sorted(f"order-17/{step.seq + 1:04}/tool/{call.id[:CALL_ID_CHARS]}/1" for call in step.calls)
        expected += [f"order-17/{step.seq:04}/turn/1"] * step.by_agent + calls
    handoff = steps[3].calls[0].id[:CALL_ID_CHARS]
    expected = [ident for ident in expected if handoff not in ident]
    wait_for_states(seen, dict.fromkeys(expected, "SUCCESS"), "order-17/")
    rows = seen.rows("order-17/")
    assert [ident for ident in rows if "/advance/" not in ident] == expected
    assert rows[expected[0]]["args"] == "planner, order-17, step 1"
    assert rows[expected[0]]["name"] == "roboco.turn"
    assert rows[expected[0]]["result"] == "'committed'"
    assert rows[expected[1]]["args"].partition(", ")[0] in ("slow_add", "artifact_write")
    (submission,) = seen.rows("kwargs:task_id=order-17 name:submit").values()
    assert submission["args"].startswith("order-17, from ")
    assert "'prompt': '(not shown)'" in submission["kwargs"]


@pytest.mark.slow
def test_a_turn_whose_worker_is_killed_fails_and_its_next_attempt_succeeds(stack: Stack, seen: Flower) -> None:
    task = submit(stack, "killed", one_agent("speaker"))
    wait_for_states(seen, {"killed/0001/turn/1": "STARTED"}, "killed/")
    wait_until_claimed(stack, "killed")
    stack.restart("agents")
    stack.wait_ready("agents")
    wait_for_states(seen, {"killed/0001/turn/1": "FAILURE", "killed/0001/turn/2": "STARTED"}, "killed/")
    SPEAKER_MAY_END.set()
    assert task.result(60).status == "completed"
    wait_for_states(seen, {"killed/0001/turn/1": "FAILURE", "killed/0001/turn/2": "SUCCESS"}, "killed/")
    rows = seen.rows("killed/")
    assert "lost with its worker" in rows["killed/0001/turn/1"]["exception"]
    assert rows["killed/0001/turn/2"]["args"] == "speaker, killed, step 1, attempt 2"
    assert 'task="roboco.turn",type="task-failed",worker="celery@coordinator' in seen.get("/metrics")


def wait_until_claimed(stack: Stack, task_id: str, attempt: int = 1) -> None:
    """Wait until a worker has claimed this attempt of the task's turn or call, which follows its start in Flower."""

    def reached() -> int:
        now = stack.orchestrator._engine.tasks.task_store.load(task_id, 1)
        at_turn = now.attempt.number if now is not None and now.attempt.claimed else 0
        return max([at_turn, *(call.attempt for call in (now.calls if now else {}).values() if call.claimed)])

    until(lambda: reached() == attempt, 60, f"a worker has claimed attempt {attempt} of {task_id}")


@pytest.mark.slow
def test_unfinished_turns_and_calls_of_a_stopped_task_are_revoked(stack: Stack, seen: Flower) -> None:
    """A turn and a call whose workers are killed, and a turn that waits for its rate limit."""
    tool = {"name": "hang", "function": "tests.support.tools_for_agents:hang", "effect": "pure", "timeout": 30}
    hanging = submit(stack, "hanging", one_agent("hanger", tools=["hang"]) | {"tools": [tool]})
    call = f"hanging/0002/tool/{call_id_at('hanging', 1, 0, 'hang', HANG)[:CALL_ID_CHARS]}/1"
    wait_for_states(seen, {"hanging/0001/turn/1": "SUCCESS", call: "STARTED"}, "hanging/")
    other = {"models": {"other": {"model": "other", "default": True}}}  # no other agent shares its rate limit
    waiting = submit(stack, "waiting", one_agent("limited") | other)
    wait_for_states(seen, {"waiting/0001/turn/1": "RETRY"}, "waiting/")
    speaking = submit(stack, "speaking", one_agent("speaker"))
    wait_for_states(seen, {"speaking/0001/turn/1": "STARTED"}, "speaking/")
    for task_id in ("hanging", "speaking"):
        wait_until_claimed(stack, task_id)
    stack.kill("coordinator", signal.SIGSTOP)  # it must see the stops before a lease expires
    for pool in ("agents", "tools"):
        stack.kill(pool)
        stack.workers[pool].process.wait()
    for task in (speaking, hanging, waiting):
        task.stop()
    stack.kill("coordinator", signal.SIGCONT)
    for task in (speaking, hanging, waiting):
        assert task.result(60).status == "cancelled"
    wait_for_states(seen, {"hanging/0001/turn/1": "SUCCESS", call: "REVOKED"}, "hanging/")
    wait_for_states(seen, {"waiting/0001/turn/1": "REVOKED"}, "waiting/")
    wait_for_states(seen, {"speaking/0001/turn/1": "REVOKED"}, "speaking/")
    for pool in ("agents", "tools"):
        stack.start(pool)
        stack.wait_ready(pool)


def test_a_turn_revoked_by_an_operator_is_redelivered(stack: Stack, seen: Flower) -> None:
    with producer_app(stack.settings) as app:
        app.control.revoke("revoked/0001/turn/1", reply=True, timeout=2)
    assert submit(stack, "revoked", one_agent("plain")).result(60).status == "completed"
    wait_for_states(seen, {"revoked/0001/turn/1": "SUCCESS"}, "revoked/")


def test_no_page_of_flower_holds_a_prompt_or_message(stack: Stack, seen: Flower) -> None:
    task = submit(stack, "secretive", one_agent("speaker"))
    wait_until_claimed(stack, "secretive")
    wrong = send(stack, "roboco.submit", task_id="wrong", team={"name": CANARY}, prompt=[CANARY], agent=[CANARY])
    send(stack, "roboco.interrupt", task_id="secretive", message=CANARY)
    send(stack, "roboco.stop", task_id="secretive", reason=CANARY)
    assert task.result(60).status == "cancelled"
    until(lambda: seen.rows("wrong"), 60, "the invalid submission is shown")
    until(lambda: seen.states("wrong")[wrong] == "FAILURE", 60, "the invalid submission is refused")
    assert "prompt: Input should be a valid string" in seen.rows("wrong")[wrong]["exception"]
    answers = [
        seen.get(path) for path in ("/api/tasks?limit=1000", "/metrics", "/tasks", "/", "/api/workers?refresh=1")
    ]
    everything = json.loads(answers[0])
    assert len(everything) > 5
    answers += [seen.get(f"/api/task/info/{urllib.parse.quote(ident)}") for ident in everything]
    answers += [seen.get(f"/task/{urllib.parse.quote(ident, safe='')}") for ident in everything]
    answers += [seen.get(f"/worker/{worker}") for worker in json.loads(answers[4])]
    assert not [text[:2000] for text in answers if CANARY in text]
