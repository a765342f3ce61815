"""Every route answers as its OpenAPI document says: requests of schemathesis to a gateway before real workers."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from roboco.domain.status import TaskStatus
from tests.support.gateway_openai import answer, write_teams
from tests.support.gateway_process import GatewayProcess
from tests.support.stack import LONG_LEASE, ROOT, Stack, until

pytestmark = [pytest.mark.workers, pytest.mark.slow]
CONFIG = """
seed = 20
[generation]
with-security-parameters = false
max-examples = {examples}
[phases.coverage]
enabled = {coverage}
unexpected-methods = ["OPTIONS", "PATCH"]
[phases.stateful]
enabled = false
[checks]
ignored_auth.enabled = false
positive_data_acceptance.enabled = false
not_a_server_error.expected-statuses = ["2xx", "3xx", "4xx", "503"]
"""
"""Rights and tenants have tests of their own, and a check of the hooks replaces that of valid data."""
HIGH = "requests_per_minute=9999999,bytes_per_minute=9999999999,open_streams=9999,open_tasks=99999,open_bytes=999999999"
NEVER_ACCEPTED = 24
"""The most operations of which no request may succeed: they need an id that no request can guess."""


@pytest.fixture
def own_stack(tmp_path: Path) -> Iterator[Stack]:
    """Yield workers of this module, whose tasks any request may end."""
    with Stack(tmp_path, lease_seconds=LONG_LEASE, teams_dir=write_teams(tmp_path / "teams")) as stack:
        stack.model.script(answer)
        yield stack


@pytest.mark.parametrize(
    ("examples", "coverage"), [(6, "false"), pytest.param(3, "true", marks=pytest.mark.nightly)], ids=["random", "all"]
)
def test_schemathesis_finds_no_undocumented_response(
    own_stack: Stack, tmp_path: Path, examples: int, coverage: str
) -> None:
    """Status, headers, content type and body are those of the document, and none is 500. Wrong data is refused."""
    config, report = tmp_path / "schemathesis.toml", tmp_path / "report.json"
    config.write_text(CONFIG.format(examples=examples, coverage=coverage))
    with GatewayProcess(
        own_stack,
        stream_seconds="1",
        limits=HIGH,
        tenant_limits=HIGH,
    ) as gateway:
        url = f"http://127.0.0.1:{gateway.port}"
        for team, name in ("desk", "ended"), ("desk", "gone"), ("desk", "talk"), ("guarded", "waits"):
            body = {"team": team, "prompt": "add", "task_id": name, "conversation": name == "talk"}
            assert httpx2.post(f"{url}/v1/tasks", json=body).status_code == 201
        assert httpx2.put(f"{url}/v1/tasks/ended/files/note.txt", content=b"hello" * 10).status_code == 201
        tasks = [own_stack.orchestrator.task(name) for name in ("ended", "gone", "talk", "waits")]
        until(lambda: all(task.status is not TaskStatus.RUNNING for task in tasks), 60, "no task works")
        [call] = tasks[-1].pending_actions().unapproved()
        program = str(Path(sys.executable).with_name("schemathesis"))
        command = [program, "--config-file", str(config), "run", f"{url}/v1/openapi.json", "--no-color"]
        options = ["--continue-on-failure", "--request-timeout", "30", "--suppress-health-check", "all"]
        found = subprocess.run(
            [*command, *options, "--report-json-path", str(report)],
            env=os.environ
            | {"PYTHONPATH": str(ROOT), "SCHEMATHESIS_HOOKS": "tests.support.openapi_hooks", "CALL_ID": call.id},
            capture_output=True,
            text=True,
            cwd=tmp_path,
            timeout=400,
        )
    assert found.returncode == 0, found.stdout
    rates = json.loads(report.read_text())["valid_rates"]
    never = [name for name, phases in rates.items() if not any(one["accepted"] for one in phases.values())]
    assert len(rates) > 80
    assert len(never) <= NEVER_ACCEPTED, never
