"""No signal interrupts the end of `roboco run`."""

import os
import signal
from pathlib import Path

import pytest

from roboco.cli.interactive import run_team
from roboco.cli.interactive.run_team import RunOptions
from roboco.cli.terminal.signals import install_signal_handlers
from roboco.client.orchestrator import Orchestrator
from roboco.errors import UsageError
from roboco.team_files.file import parse_team

TEAM = parse_team({"name": "desk", "agents": [{"name": "writer", "prompt": "You write."}]})


class InterruptedClient(Orchestrator):
    """A client that gets Ctrl-C while it is closed."""

    def close(self) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        super().close()


def test_a_signal_while_the_command_closes_does_not_replace_its_result(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ROBOCO_REDIS_URL", "redis://127.0.0.1:1/0")
    monkeypatch.delenv("ROBOCO_WORKSPACE", raising=False)
    monkeypatch.setattr(run_team, "Orchestrator", InterruptedClient)
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    install_signal_handlers()
    try:
        with pytest.raises(UsageError, match="no agent 'unknown'"):
            run_team.run_team(TEAM, RunOptions("hi", {"agent": "unknown"}))
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
