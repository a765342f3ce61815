"""The example files of README.md and the guides, run as they are."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from roboco import ToolContext
from roboco.domain.history.part import ToolCall
from roboco.domain.team.tool_spec import ToolSpec
from roboco.local.process import start_server
from roboco.team_files.file import parse_team
from roboco.workspace.artifacts.store import NewArtifact, read_artifact, write_artifact
from tests.support import forked
from tests.support.documents import example, examples, write_files
from tests.support.memory_ports.workspace import MemoryFiles, MemoryHistories
from tests.support.servers.model_server import Reply, Request
from tests.support.stack import POOLS, ROOT, Stack, until
from tests.support.toolboxes import toolbox_of

TEAM = {"name": "research", "agents": [{"name": "reader", "prompt": "You research."}]}
BOOKED = {"time": "Tuesday"}
VERDICT = '"APPROVED"'
WAVES = "Waves come and go. For sailors, write about the wind and the stars. "


def responder(request: Request) -> Reply:
    """Return the reply of the agent whose prompt the request has."""
    if request.system.startswith("You research"):
        return Reply(text=f"News about: {request.last_user}")
    if request.system.startswith("You review"):
        return Reply(text=VERDICT)
    if "Book a table" in request.system:
        return _booked(request)
    if request.system.startswith("Answer."):
        return Reply(text=request.system)
    assert "the sea for sailors" in request.system
    if "Name a city." in json.dumps(request.messages):
        return Reply(text="Oslo lies at the sea. ")
    if request.count("assistant") == 0:
        return Reply(tool_calls=[("reader_interests", {"readers": "sailors"})])
    return Reply(text=f"Waves come and go. {request.tool_results[0][1]} ")


def _booked(request: Request) -> Reply:
    """Return a long text until the interruption, then the call that achieves the goal, then a last text."""
    if "Not on Monday." not in json.dumps(request.messages):
        return Reply(text="I am looking for a table. " * 200, chunks=1000, interval=0.05)
    return Reply(text="Booked. ") if request.tool_results else Reply(tool_calls=[("achieve_booking", BOOKED)])


class StackOfDocuments(Stack):
    """Workers with the tools and teams of the documents, whose files are in `folder`."""

    def python(self, name: str, *arguments: str) -> str:
        """Return the output of a program of the documents."""
        return forked.run_script(self.folder / name, *arguments, env=self.environment)

    def code(self, text: str) -> str:
        """Return the output of code that imports the programs."""
        (self.folder / "code_of_test.py").write_text(text)
        return self.python("code_of_test.py")

    def run(self, *command: str | Path) -> str:
        """Return the output of a command that finds the programs and files of the documents."""
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        environment = self.environment | {"PATH": path}
        done = subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=180)
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StackOfDocuments]:
    folder = tmp_path_factory.mktemp("documents")
    write_files(folder)
    (folder / "teams").mkdir()
    (folder / "teams" / "research.yaml").write_text(yaml.safe_dump(TEAM))
    changes: dict[str, Any] = {
        "tool_modules": ("shop_tools", "shop_agents"),
        "teams_dir": folder / "teams",
        "allowlist": {"callbacks": ("shop.publish",)},
    }
    with StackOfDocuments(folder, pools=(), **changes) as started:
        started.model.script(responder)
        for pool in POOLS:
            started.start(pool, PYTHONPATH=f"{ROOT}:{folder}")
        yield started
        assert started.model.violations == []


@pytest.fixture(scope="module")
def shop(stack: StackOfDocuments) -> Iterator[Path]:
    """Yield the log of a worker of the application in the guide to canvases."""
    command = [sys.executable, "-m", "celery", "-A", "shop", "worker", "-l", "INFO", "-c", "1", "-n", "shop"]
    log = stack.folder / "shop.log"
    environment = stack.environment | {"PYTHONPATH": f"{ROOT}:{stack.folder}"}
    server = start_server("shop", command, env=environment, log=log, cwd=stack.folder)
    until(lambda: " ready." in log.read_text(), 60, "the shop's worker is ready")
    yield log
    server.stop()


def test_service_without_a_stack_ends_with_one_line(tmp_path: Path) -> None:
    write_files(tmp_path)
    nowhere = {"ROBOCO_REDIS_URL": "redis://127.0.0.1:1/0", "ROBOCO_WORKSPACE": tmp_path.as_uri()}
    command, environment = [sys.executable, "service.py"], os.environ | nowhere
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=180)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("redis does not answer")
    assert done.stderr.endswith("; is the stack running?\n")
    assert done.stderr.count("\n") == 1


@pytest.mark.workers
def test_service_prints_the_text_of_the_team(stack: StackOfDocuments) -> None:
    before = {task.task_id for task in stack.orchestrator.tasks()}
    assert stack.python("service.py") == f"{WAVES}\ncompleted: APPROVED\n"
    [task_id] = {task.task_id for task in stack.orchestrator.tasks()} - before
    history = stack.folder / "workspace" / task_id / "history.jsonl"
    stack.python("check.py", str(history))
    changed = stack.folder / "changed.jsonl"
    changed.write_bytes(history.read_bytes().replace(b"Waves come", b"Waves cone", 1))
    ended = subprocess.run([sys.executable, stack.folder / "check.py", changed], capture_output=True, text=True)
    assert ended.stderr == "step 3 was changed\n"


@pytest.mark.workers
def test_command_of_the_front_page_runs_the_team(stack: StackOfDocuments) -> None:
    [command] = [one.text for one in examples() if one.text.startswith("ROBOCO_TOOL_MODULES=shop_tools roboco run")]
    assert WAVES.strip() in stack.run("bash", "-euc", command)


@pytest.mark.workers
def test_follower_prints_a_task_from_its_beginning(stack: StackOfDocuments) -> None:
    team = parse_team(yaml.safe_load((stack.folder / "team.yaml").read_text()))
    stack.orchestrator.run(team, "the sea", task_id="order-17", context={"audience": "sailors"})
    assert stack.python("follower.py") == f"{WAVES}{VERDICT}\ncompleted\n"


@pytest.mark.workers
@pytest.mark.parametrize(
    ("prompt", "agents", "answer"),
    [
        ("A refund, please.", ["triage", "clerk", "writer"], "Answer. Say that 20 euros come back."),
        ("Hello.", ["triage", "writer"], "Answer. "),
    ],
)
def test_functions_are_agents(stack: StackOfDocuments, prompt: str, agents: list[str], answer: str) -> None:
    team = parse_team(yaml.safe_load((stack.folder / "desk.yaml").read_text()))
    task = stack.orchestrator.run(team, prompt)
    assert task.result(60).status == "completed"
    assert list(dict.fromkeys(step.agent_name for step in task.history() if step.by_agent)) == agents
    assert task.history()[-1].text.strip() == answer.strip()
    assert "the code of triage was called" in stack.run("roboco", "why", task.task_id)


@pytest.mark.workers
def test_booking_achieves_its_goal_after_an_interruption(stack: StackOfDocuments) -> None:
    assert stack.python("booking.py") == f"{VERDICT} {BOOKED} 0.0\n"


@pytest.mark.workers
def test_imported_messages_are_continued_as_a_conversation(stack: StackOfDocuments) -> None:
    assert stack.python("continued.py") == f"{VERDICT} user_turn\n"
    until(lambda: any(stack.orchestrator.tasks(status="user_turn")), 60, "the task is in the index as a waiting one")
    stack.orchestrator.task(next(stack.orchestrator.tasks(status="user_turn")).task_id).stop()


@pytest.mark.workers
def test_approvals_lists_tasks_and_a_page(stack: StackOfDocuments) -> None:
    """No task waits for an approval here, and none of this team exists."""
    until(lambda: stack.orchestrator.task_page().complete, 60, "the task index is complete")
    assert stack.python("approvals.py") == "0  True\n"


@pytest.mark.workers
def test_canvas_publishes_the_text_of_the_team(stack: StackOfDocuments, shop: Path) -> None:
    stack.python("research.py")
    until(lambda: "News about: What is new?" in shop.read_text(), 60, "the text is published")


@pytest.mark.workers
def test_schedule_submits_a_task_for_its_tenant(stack: StackOfDocuments) -> None:
    lines = "import schedule", "entry = schedule.app.conf.beat_schedule['news']"
    sending = (
        "from celery.beat import _evaluate_entry_kwargs as evaluate",
        "schedule.app.send_task(entry['task'], kwargs=evaluate(entry['kwargs']), **entry['options'])",
    )
    stack.code("\n".join([*lines, *sending]))
    until(lambda: any(one.task_id.startswith("acme:") for one in stack.orchestrator.tasks()), 60, "a task of acme")


@pytest.mark.workers
def test_notification_calls_the_application(stack: StackOfDocuments, shop: Path) -> None:
    before = shop.read_text().count("shop.publish")
    stack.python("notified.py")
    until(lambda: shop.read_text().count("shop.publish") > before, 60, "the callback is delivered")


def test_tool_of_the_documents_verifies_its_effect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_files(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    toolbox = toolbox_of(MemoryFiles(), MemoryHistories(), ("shop_mail",), tmp_path / "index")
    spec = ToolSpec(name="send_mail", function="shop_mail:send_mail")
    team = parse_team({"name": "mails", "agents": [{"name": "one", "prompt": "hi"}]})
    call = ToolCall(id="tc_1", tool_name="send_mail", args={"to": "ann", "text": "hello"})
    context = ToolContext("t", "one", "tc_1", "t/tc_1", 1)
    before = toolbox.verify(call, spec, context)
    assert before is not None
    assert before.result.is_error
    assert toolbox.run(team, call, spec, context).result.result == "sent"
    after = toolbox.verify(call, spec, context)
    assert after is not None
    assert after.result.result == "sent"


def test_files_of_the_guide_are_read_and_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_files(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    files, context = MemoryFiles(), ToolContext("t", "one", "tc_1", "t/tc_1", 1)
    write_artifact(files, "t", NewArtifact("orders.csv"), b"article,price\ntea,3.5\nmilk,1\n")
    toolbox = toolbox_of(files, MemoryHistories(), ("shop_reports",), tmp_path / "index")
    spec = ToolSpec(name="summarize", function="shop_reports:summarize_orders", effect="pure")
    call = ToolCall(id="tc_1", tool_name="summarize", args={"name": "orders.csv"})
    outcome = toolbox.offload_large(toolbox.run(parse_team(TEAM), call, spec, context), context)
    assert outcome.result.result[0] == "2 orders"
    assert read_artifact(files, "t", outcome.artifacts[0].name) == b"orders,total\n2,4.5\n"


def test_credentials_of_the_guide_differ_by_tenant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_files(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    modules, function = ("shop_credentials",), "shop_credentials:find"
    toolbox = toolbox_of(MemoryFiles(), MemoryHistories(), modules, tmp_path / "index", credentials=function)
    spec = ToolSpec(name="count", function="shop_credentials:count_customers", effect="pure")
    call = ToolCall(id="tc_1", tool_name="count", args={})
    outcomes = {
        tenant: toolbox.run(parse_team(TEAM), call, spec, ToolContext(f"{tenant}:t", "one", "tc_1", "k", 1)).result
        for tenant in ("acme", "globex", "initech")
    }
    assert outcomes["acme"].result == "3 customers of acme, with a key of 15 characters"
    assert outcomes["globex"].result == "3 customers of globex, with a key of 16 characters"
    assert outcomes["initech"].error == "credential 'crm' of tenant 'initech': there is none"


def test_shown_excerpt_is_in_the_example_that_ships() -> None:
    assert example("example", "sse.py").rstrip() in (ROOT / "roboco" / "examples" / "sse.py").read_text()


def test_commands_of_compose_are_on_the_front_page() -> None:
    compose = yaml.safe_load((ROOT / "compose.yaml").read_text())
    for pool in POOLS:
        command = compose["services"][pool]["command"].partition(" --")[0]
        assert f"`{command}`" in (ROOT / "README.md").read_text()


FASTAPI = """
from fastapi.testclient import TestClient

import desk_service

with TestClient(desk_service.app, headers={"X-User": "7"}) as client:
    for _ in range(2):
        assert client.post("/tickets/1", json={"prompt": "the sea"}).status_code == 201
    print(client.get("/tickets/1").json())
    assert client.post("/tickets/1", json={"prompt": "other"}).status_code == 400
    assert client.get("/tickets/1", headers={"X-User": "8"}).status_code == 404
    assert client.get("/tickets/1", headers={"X-User": "a b"}).status_code == 404
    assert client.get("/tickets/1/events", headers={"X-User": "8"}).status_code == 404
    events = client.get("/tickets/1/events").text.split("\\n\\n")[:-1]
    assert "event_task_end" in events[-1]
    last = events[4].split("\\n")[0].removeprefix("id: ")
    rest = client.get("/tickets/1/events", headers={"Last-Event-ID": last}).text.split("\\n\\n")[:-1]
    assert rest == events[5:]
    assert client.post("/tickets/1/stop").status_code == 204
"""

DJANGO = """
import asyncio

import django
from django.conf import settings

settings.configure(
    SECRET_KEY="secret",
    ROOT_URLCONF="desk_views",
    INSTALLED_APPS=["django.contrib.auth", "django.contrib.contenttypes"],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "django.sqlite3"}},
    SESSION_ENGINE="django.contrib.sessions.backends.signed_cookies",
    MIDDLEWARE=[
        "django.contrib.sessions.middleware.SessionMiddleware",
        "django.contrib.auth.middleware.AuthenticationMiddleware",
    ],
    ALLOWED_HOSTS=["testserver"],
    USE_TZ=True,
)
django.setup()

from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import AsyncClient

call_command("migrate", verbosity=0)
users = [User.objects.create(username=name) for name in ("ann", "bob")]
import shop_orm

assert shop_orm.customers() == 2


async def text(client, **headers):
    response = await client.get("/tickets/1/events", headers=headers)
    return "".join([chunk.decode() async for chunk in response.streaming_content]).split("\\n\\n")[:-1]


async def main():
    stranger, client, other = AsyncClient(), AsyncClient(), AsyncClient()
    await client.aforce_login(users[0])
    await other.aforce_login(users[1])
    assert (await stranger.post("/tickets/1/start", {"prompt": "the sea"})).status_code == 302
    for _ in range(2):
        assert (await client.post("/tickets/1/start", {"prompt": "the sea"})).status_code == 201
    assert (await client.post("/tickets/1/start", {"prompt": "other"})).status_code == 400
    assert (await client.post("/tickets/2/start")).status_code == 400
    assert (await client.get("/tickets/1/events", headers={"Last-Event-ID": "x"})).status_code == 400
    assert "event_task_end" in (await text(client))[-1]
    events = await text(client)  # of a live task, the pieces of a text may be others
    last = events[4].split("\\n")[0].removeprefix("id: ")
    assert await text(client, **{"Last-Event-ID": last}) == events[5:]
    assert (await other.get("/tickets/1/events")).status_code == 404
    assert (await client.post("/tickets/1/stop")).status_code == 204


asyncio.run(main())
"""


@pytest.mark.workers
def test_routes_of_a_fastapi_service_start_follow_and_stop(stack: StackOfDocuments) -> None:
    assert f"'status': 'completed', 'text': '{VERDICT}'" in stack.code(FASTAPI)


@pytest.mark.workers
def test_views_of_a_django_project_start_follow_and_stop(stack: StackOfDocuments) -> None:
    stack.code(DJANGO)
