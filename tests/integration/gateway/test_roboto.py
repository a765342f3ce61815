"""roboto.ai's own package, unmodified, against two replicas of the gateway and real workers."""

import json
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from roboto.ai.agent_session import (
    AgentSession,
    AgentToolUseEvent,
    client_tool,
)
from roboto.ai.goals import DatasetSummaryAgentGoal

from roboco.gateway.roboto.answers import POLL_SECONDS
from tests.support import forked
from tests.support.documents import example
from tests.support.gateway_roboto import client_view, record_of, server_view
from tests.support.gateway_roboto_server import Replicas, serving
from tests.support.servers.model_server import Reply, Request
from tests.support.stack import LONG_LEASE, Stack

pytestmark = pytest.mark.workers

TEAM = {
    "name": "chat",
    "description": "Answers.",
    "models": {
        "standard": {"model": "scripted", "default": True},
        "advanced": {"model": "scripted", "description": "slow"},
    },
    "agents": [{"name": "helper", "prompt": "help {{ context.system_prompt }}"}],
    "collaboration_model": {"type": "sequential"},
}


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Yield three real workers, whose clients find the team `chat`."""
    folder = tmp_path_factory.mktemp("stack")
    teams = folder / "teams"
    teams.mkdir()
    (teams / "chat.json").write_text(json.dumps(TEAM))
    with Stack(folder, lease_seconds=LONG_LEASE, teams_dir=teams) as started:
        yield started


@pytest.fixture(scope="module")
def gateways(stack: Stack) -> Iterator[Replicas]:
    """Yield two replicas of the gateway."""
    with serving(stack.settings, roboto_team="chat") as replicas:
        yield replicas


@pytest.fixture
def start(stack: Stack, gateways: Replicas) -> Callable[..., AgentSession]:
    """Return a function that starts a session whose model answers with a script."""
    gateways.lost.clear()

    def started(message: Any, script: Callable[[Request], Reply] = echo, **options: Any) -> AgentSession:
        stack.model.script(script)
        return AgentSession.start(message, roboto_client=gateways.client(), **options)

    return started


def echo(request: Request) -> Reply:
    return Reply(text=f"You said: {request.last_user}")


def texts(session: AgentSession) -> list[tuple[str, str]]:
    """Return role and text of each message of the client."""
    return [
        (str(message.role), "".join(getattr(block, "text", "") for block in message.content))
        for message in session.messages
    ]


def check_same(stack: Stack, session: AgentSession) -> None:
    """Assert that the client has accumulated the server's session."""
    assert client_view(session) == server_view(stack.orchestrator.task(session.session_id).session())


def test_start_and_run_return_the_answer(stack: Stack, start: Callable[..., AgentSession]) -> None:
    session = start("Hello?").run(timeout=60)
    assert texts(session) == [("user", "Hello?"), ("assistant", "You said: Hello?")]
    assert session.status == "user_turn"
    assert all(message.is_complete() for message in session.messages)
    check_same(stack, session)


def test_trap_2_a_sent_message_is_not_doubled_and_another_caller_reads_it(
    stack: Stack, gateways: Replicas, start: Callable[..., AgentSession]
) -> None:
    session = start("one").run(timeout=60)
    watcher = AgentSession.from_id(session.session_id, roboto_client=gateways.client())
    task = stack.orchestrator.task(session.session_id)
    task.send("from elsewhere", by="key:other")
    watcher.run(timeout=60)
    session.run(timeout=60)
    session.send_text("mine").run(timeout=60)
    assert texts(watcher)[2] == texts(session)[2] == ("user", "from elsewhere")
    assert [text for role, text in texts(session) if role == "user"] == ["one", "from elsewhere", "mine"]
    check_same(stack, session)


def test_trap_4_run_waits_for_a_message_that_no_worker_has_applied(
    stack: Stack, gateways: Replicas, start: Callable[..., AgentSession]
) -> None:
    session = start("one").run(timeout=60)
    stack.kill("coordinator")
    stack.workers["coordinator"].process.wait()
    session.send_text("two")
    record = AgentSession.from_id(session.session_id, roboto_client=gateways.client())
    assert record.status == "roboto_turn"
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(session.run, timeout=60)
        time.sleep(0.5)
        assert not running.done()
        stack.start("coordinator")
        running.result(60)
    assert texts(session)[-1] == ("assistant", "You said: two")


@pytest.mark.parametrize("repeated", ["one more", "one"])
def test_trap_6_a_repeated_post_is_one_message(
    stack: Stack, gateways: Replicas, start: Callable[..., AgentSession], repeated: str
) -> None:
    session = start("one").run(timeout=60)
    gateways.lost.append("/messages")
    posts = len([path for path in gateways.paths if path.endswith("/messages")])
    session.send_text(repeated)
    assert len([path for path in gateways.paths if path.endswith("/messages")]) - posts == 2
    session.run(timeout=60)
    assert [text for _, text in texts(session)] == ["one", "You said: one", repeated, f"You said: {repeated}"]
    check_same(stack, session)


def test_trap_6_a_settled_session_answers_at_once_and_a_working_one_in_a_long_poll(
    gateways: Replicas, start: Callable[..., AgentSession]
) -> None:
    session = start("one", lambda request: Reply(text="late", delay=1.5))
    before = len(gateways.paths)
    session.run(timeout=60)
    assert len(gateways.paths) - before <= 6
    began = time.monotonic()
    session.refresh()
    assert time.monotonic() - began < POLL_SECONDS


@client_tool
def client_lookup(place: str) -> dict[str, Any]:
    """Look a place up."""
    if place == "nowhere":
        raise ValueError("there is no such place")
    return {"place": place, "level": 7}


def calls_lookup(request: Request) -> Reply:
    """Call the client's tool, and then say what it has returned."""
    results = [message["content"] for message in request.messages if message["role"] == "tool"]
    if not results:
        place = request.last_user.split()[-1]
        return Reply(tool_calls=[("client_lookup", {"place": place})])
    return Reply(text=f"It returned {results[-1]}")


@pytest.mark.parametrize(("place", "said"), [("husum", '"level":7'), ("nowhere", "there is no such place")])
def test_client_tools_run_in_the_client(
    stack: Stack, gateways: Replicas, start: Callable[..., AgentSession], place: str, said: str
) -> None:
    session = start(f"Look up {place}", calls_lookup, client_tools=[client_lookup])
    gateways.lost.append("/tool-results")
    seen: list[Any] = []
    session.run(timeout=60, on_event=seen.append)
    assert said in texts(session)[-1][1].replace(" ", "") or said in texts(session)[-1][1]
    assert [event.name for event in seen if isinstance(event, AgentToolUseEvent)] == ["client_lookup"]
    assert [str(message.role) for message in session.messages] == ["user", "assistant", "roboto", "assistant"]
    check_same(stack, session)


def achieves(request: Request) -> Reply:
    """Achieve the first goal that is open."""
    tools = request.tools
    done = any(message["role"] == "tool" for message in request.messages)
    goal = next((name for name in tools if name.startswith("achieve_")), None)
    if goal is None or done:
        return Reply(text="Done.")
    return Reply(tool_calls=[(goal, {"summary": "All is well."})])


def test_a_goal_is_achieved_by_its_tool(stack: Stack, gateways: Replicas, start: Callable[..., AgentSession]) -> None:
    session = start(None, achieves, goals=[DatasetSummaryAgentGoal(dataset_id="ds_1")])
    session.run(timeout=60)
    assert texts(session)[0] == ("user", "Summarize the dataset ds_1.")
    session.refresh()
    record = AgentSession.from_id(session.session_id, roboto_client=gateways.client())
    [goal] = record_of(record).goals or []
    assert (goal.goal_type, goal.status, goal.message_sequence_num) == ("dataset_summary", "achieved", 0)
    assert goal.to_agent_goal() == DatasetSummaryAgentGoal(dataset_id="ds_1")
    check_same(stack, session)


def tide(request: Request) -> Reply:
    """Ask the client for the tide, and answer with it."""
    if "tide" in request.last_user and not request.tool_results:
        return Reply(tool_calls=[("client_tide", {"place": "Husum"})])
    return Reply(text=f"{request.last_user} It is {request.messages[-1]['content']}")


def test_the_documented_program_prints_the_answer(stack: Stack, gateways: Replicas, tmp_path: Path) -> None:
    stack.model.script(tide)
    program = tmp_path / "roboto_chat.py"
    program.write_text(example("file", "roboto_chat.py"))
    variables = {"ROBOTO_SERVICE_ENDPOINT": gateways.endpoint, "ROBOTO_API_KEY": "local", "HOME": str(tmp_path)}
    assert forked.run_script(program, env=os.environ | variables) == "And tomorrow? It is And tomorrow?"
