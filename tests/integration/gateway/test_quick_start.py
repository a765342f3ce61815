"""The commands and programs of the guide run against `roboco serve` with a key."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from roboco.domain.access_key import Scope
from roboco.local.process import free_port, start_server
from tests.integration.gateway.test_serve import Served, served
from tests.integration.streams.test_sse_browser import browser
from tests.support import forked
from tests.support.documents import GUIDES, example
from tests.support.redis_users import StackOfUsers, take_denials, url_of
from tests.support.servers.model_server import ModelServer, Reply
from tests.support.stack import ROOT, Stack, until

pytestmark = [pytest.mark.workers, pytest.mark.slow]
COMMANDS = re.compile(r"^```bash\n(.*?)^```$", re.DOTALL | re.MULTILINE)
DESK = {"name": "desk", "agents": [{"name": "writer", "prompt": "You write."}]}


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Yield workers that each have the rights of their Redis user."""
    with StackOfUsers(tmp_path_factory.mktemp("acl")) as started:
        yield started


@pytest.fixture
def gateway(stack: Stack, tmp_path: Path) -> Iterator[Served]:
    """Yield a gateway with the team `desk` and the rights of its Redis user, which are enough."""
    (tmp_path / "teams").mkdir()
    (tmp_path / "teams" / "desk.yaml").write_text(yaml.safe_dump(DESK))
    own = {name: value for name, value in stack.environment.items() if name.startswith("ROBOCO_")}
    own |= {
        "ROBOCO_REDIS_URL": url_of(stack.valkey, "roboco-gateway"),
        "ROBOCO_TEAMS_DIR": str(tmp_path / "teams"),
    }
    with served(tmp_path, stack.valkey, **own) as started:
        yield started
    assert take_denials(stack) == set()


def section_of(title: str) -> str:
    """Return a section of the guide."""
    found = re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", (GUIDES / "gateway.md").read_text(), re.DOTALL | re.MULTILINE)
    assert found is not None
    return found[1]


def key_of(stack: Stack) -> str:
    """Return a new key of the gateway."""
    return stack.orchestrator.operator.create_key(name="quick start").text


def run(command: list[str], folder: Path, **variables: str) -> str:
    """Return what a command prints."""
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(sys.path)} | variables
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.skipif(not shutil.which("curl"), reason="needs curl")
def test_the_first_commands_lead_to_a_streamed_answer(tmp_path: Path) -> None:
    """Everything but the installation: the team file of the page, `roboco dev`, and curl, without another word."""
    first, ask = re.findall(r"^```sh\n(.*?)^```$", section_of("Quick start"), re.DOTALL | re.MULTILINE)[:2]
    installation, _, start = first.partition("\n")
    assert installation == "pip install 'roboco[dev-server]'"
    base = free_port()
    start, ask = start.replace("7700", str(base)), ask.replace("7713", str(base + 13))
    log = tmp_path / "dev.log"
    with ModelServer() as model:
        model.script(lambda _: Reply(chunks=["Rivers ", "carry ", "salt."], interval=0.05))
        programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        own = {"PATH": programs, "HOME": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
        environment = own | {"OPENAI_BASE_URL": model.base_url, "OPENAI_API_KEY": "none"}
        stack = start_server("dev", ["bash", "-ec", start], env=environment, log=log, cwd=tmp_path)
        try:
            until(lambda: "gateway is ready" in log.read_text(), 120, log.read_text)
            printed = run(["bash", "-ec", ask], tmp_path)
        finally:
            stack.stop(60)
    pieces = [json.loads(line[6:]) for line in printed.splitlines() if line.startswith("data: {")]
    assert "".join(one["choices"][0]["delta"].get("content") or "" for one in pieces) == "Rivers carry salt."
    assert printed.rstrip().endswith("data: [DONE]")


@pytest.mark.skipif(not (shutil.which("curl") and shutil.which("jq")), reason="needs curl and jq")
def test_the_commands_start_follow_and_steer_a_task(stack: Stack, gateway: Served, tmp_path: Path) -> None:
    script = "set -euo pipefail\n" + "\n".join(COMMANDS.findall(section_of("Quick start")))
    url = f"http://127.0.0.1:{gateway.port}"
    printed = run(["bash", "-c", script], tmp_path, ROBOCO=url, KEY=key_of(stack))
    assert "event: event_task_start" in printed
    assert '"applied_at_seq":' in printed
    task_id = json.loads((tmp_path / "started.json").read_text())["task_id"]
    stopped = stack.orchestrator.task(task_id)
    until(lambda: stopped.result(60).status == "cancelled", 60, "the task is stopped")


@pytest.mark.skipif(not (shutil.which("curl") and shutil.which("jq")), reason="needs curl and jq")
def test_the_commands_of_the_rest_api_run_one_after_the_other(stack: Stack, gateway: Served, tmp_path: Path) -> None:
    script = "set -euo pipefail\n" + "\n".join(COMMANDS.findall(section_of("REST")))
    url = f"http://127.0.0.1:{gateway.port}"
    key = stack.orchestrator.operator.create_key(name="operator", scopes=list(Scope)).text
    printed = run(["bash", "-c", script], tmp_path, ROBOCO=url, KEY=key)
    assert '"applied_at_seq":' in printed
    assert printed.endswith("parcel")


def test_the_program_for_the_openai_package_prints_the_answer(stack: Stack, gateway: Served, tmp_path: Path) -> None:
    program = tmp_path / "first_response.py"
    program.write_text(example("file", "first_response.py"))
    url = f"http://127.0.0.1:{gateway.port}/openai/v1"
    variables = {"OPENAI_BASE_URL": url, "OPENAI_API_KEY": key_of(stack)}
    assert forked.run_script(program, env=os.environ | variables) == "You answers: Where is my parcel?\n"


def test_the_script_of_a_page_signs_in_and_shows_the_text(stack: Stack, tmp_path: Path) -> None:
    """A real browser keeps the cookie, and sends it with writes and with its EventSource."""
    (tmp_path / "desk.yaml").write_text(yaml.safe_dump(DESK))
    stack.model.script(lambda _: Reply(text="Waves come and go."))
    shown, port = tmp_path / "shown.txt", free_port()
    environment = stack.environment | {
        "ROBOCO_REDIS_URL": url_of(stack.valkey, "roboco-gateway"),
        "ROBOCO_TEAMS_DIR": str(tmp_path),
        "ROBOCO_GATEWAY_COOKIE_SECRET": "0123456789abcdef" * 4,
        "SHOWN": str(shown),
    }
    arguments = ["tests.support.servers.sign_in_page:app", "--port", str(port), "--timeout-graceful-shutdown", "1"]
    log = tmp_path / "uvicorn.log"
    web = forked.start("web", arguments, program="uvicorn", env=environment, log=log, cwd=ROOT)
    try:
        until(lambda: "Uvicorn running" in log.read_text(), 60, log.read_text)
        with browser(stack, f"http://127.0.0.1:{port}/page.html?key={key_of(stack)}"):
            until(lambda: shown.exists() and shown.read_text() == "Waves come and go.", 60, log.read_text)
    finally:
        web.stop()
    assert take_denials(stack) == set()
