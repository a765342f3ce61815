"""A hostile MCP server reads none of the secrets and files of the worker that starts it."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from roboco.tools.mcp.confinement import Confinement, ConfinementMode
from tests.support.mcp_servers import PROC, declare_server, never, open_servers

THIEF = (sys.executable, str(Path(__file__).parent / "hostile" / "mcp_server.py"))
SECRET = "the-secret-of-the-worker"
GUARDED = f"""
import os, sys
sys.path.insert(0, {os.getcwd()!r})
from roboco.process.process_guard import guard_process
guard_process()
child = os.fork()
if child == 0:
    print(os.stat("/proc/self/environ").st_uid, flush=True)
    os._exit(0)
os.waitpid(child, 0)
print(os.stat("/proc/self/environ").st_uid, flush=True)
sys.stdin.read()
"""

pytestmark = pytest.mark.skipif(not PROC.exists(), reason="the sandbox is Linux'")


def call_thief(tool: str, args: dict[str, Any], mode: ConfinementMode = "network", paths: tuple[str, ...] = ()) -> Any:
    """Return the answer of the hostile server's tool."""
    server = declare_server(THIEF, tools=["steal", "roam"], timeout=30, connect_timeout=30)
    with open_servers(server, confinement=Confinement(mode, paths)) as servers:
        return json.loads(servers.call(server, tool, args, "k", never)[0])


@pytest.mark.parametrize("mode", ["network", "offline"])
def test_server_sees_no_process_of_the_worker(mode: ConfinementMode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKER_SECRET", SECRET)
    holder = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        found = call_thief("steal", {"word": SECRET}, mode)
    finally:
        holder.communicate(b"\n")
    assert found["found"] == []
    assert found["processes"] <= 3, "its own, and the first process of the sandbox"
    assert set(found["environment"]) <= {"HOME", "LC_CTYPE", "PATH", "PWD"}


def test_server_reads_no_file_of_the_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace, home = tmp_path / "workspace", tmp_path / "home"
    for folder in (workspace, home):
        folder.mkdir()
        (folder / "file").write_text("secret")
    (tmp_path / ".env").write_text("secret")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(home))
    paths = [str(workspace / "file"), str(home / "file"), str(tmp_path / ".env"), "/var/run/docker.sock", "/etc/shadow"]
    assert call_thief("roam", {"paths": paths})["read"] == []
    assert [Path(path).read_text() for path in paths[:3]] == ["secret"] * 3


def test_server_changes_only_what_the_operator_allows(tmp_path: Path) -> None:
    for name in ("read", "write"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text("data")
    read, write = (str(tmp_path / name / "file") for name in ("read", "write"))
    allowed = (str(tmp_path / "read"), f"{tmp_path / 'write'}:rw")
    found = call_thief("roam", {"paths": [read, write, THIEF[1], sys.executable]}, paths=allowed)
    assert found == {"read": [read, write, THIEF[1], sys.executable], "written": [write]}


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
def test_worker_and_its_children_belong_to_root_in_proc(tmp_path: Path) -> None:
    """Run as another user, since root reads everything."""
    python = "/usr/bin/python3"
    if not os.path.exists(python):
        pytest.skip("there is no interpreter that other users can start")
    script = tmp_path / "guarded.py"
    guard = Path("roboco/process/process_guard.py").read_text()
    body = GUARDED.replace("from roboco.process.process_guard import guard_process\n", guard + "\n").replace(
        "sys.path.insert", "#"
    )
    script.write_text(body)
    command = [python, "-c", body]
    worker = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, user=65534, group=65534, env={})
    try:
        assert worker.stdout is not None
        assert worker.stdout.readline().strip() == b"0"
        assert worker.stdout.readline().strip() == b"0"
        thief = ["-c", f"open('/proc/{worker.pid}/environ').read()"]
        done = subprocess.run([python, *thief], user=65534, group=65534, capture_output=True, env={})
        assert b"PermissionError" in done.stderr
    finally:
        worker.communicate(b"")
