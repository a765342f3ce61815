"""The commands of the guide to the REST API, as they stand there."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.support.documents import GUIDES
from tests.support.gateway_process import GatewayProcess
from tests.support.stack import Stack

pytestmark = [
    pytest.mark.workers,
    pytest.mark.skipif(not (shutil.which("curl") and shutil.which("jq")), reason="needs curl and jq"),
]
SECTION = re.compile(r"^## REST\n(.*?)(?=^## |\Z)", re.DOTALL | re.MULTILINE)
COMMANDS = re.compile(r"^```bash\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def test_the_commands_of_the_guide_run_one_after_the_other(
    shared_stack: Stack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    section = SECTION.search((GUIDES / "gateway.md").read_text())
    assert section is not None
    script = "set -euo pipefail\n" + "\n".join(COMMANDS.findall(section[1]))
    teams = tmp_path / "teams"
    teams.mkdir()
    desk = {"name": "desk", "agents": [{"name": "writer", "prompt": "You write."}]}
    (teams / "desk.yaml").write_text(yaml.safe_dump(desk))
    monkeypatch.setattr(shared_stack, "settings", shared_stack.settings.model_copy(update={"teams_dir": teams}))
    with GatewayProcess(shared_stack) as gateway:
        variables = {"ROBOCO": gateway.url, "KEY": "none", "PATH": "/usr/bin:/bin"}
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=tmp_path,
            env=variables,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    assert done.returncode == 0, done.stdout + done.stderr
    assert '"applied_at_seq":' in done.stdout
    assert done.stdout.endswith("parcel")
