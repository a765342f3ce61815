"""The log of a task that fails: one warning, with the reason."""

import logging

import pytest

from roboco.engine.coordinate.actions import MAX_LOGGED_REASON
from roboco.errors import ModelError
from tests.support.memory_ports.journeys import member
from tests.support.memory_ports.model import ScriptedReply
from tests.support.memory_ports.world import World, team_of, world_parts

ONE_AGENT = team_of(agents=[member("first")])


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [
        record.getMessage()
        for record in caplog.records
        if record.levelno == logging.WARNING and record.getMessage().startswith("task task_1 ended")
    ]


def submit_failing(message: str) -> World:
    def refuse(request: object) -> ScriptedReply:
        raise ModelError("bad_request", message, False)

    world = World(world_parts(refuse))
    world.submit(ONE_AGENT)
    return world


def test_reason_in_the_log_is_one_bounded_printable_line(caplog: pytest.LogCaptureFixture) -> None:
    submit_failing(f"redis://u:pass-word@h\nERROR forged\x1b[2J{'x' * 100_000}").settle()
    [line] = warnings(caplog)
    assert line.startswith("task task_1 ended as failed: first: redis://***@h\\nERROR forged\\u001b[2Jxxx")
    assert line.isprintable()
    assert len(line) < MAX_LOGGED_REASON + 100
