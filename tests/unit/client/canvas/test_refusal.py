"""A refused `roboco.team` is logged, and is a dead letter unless the queues were full."""

from types import SimpleNamespace
from typing import Any

import pytest
from celery.app.task import Context

from roboco.client.canvas.refusal import refuse
from roboco.domain.dead_letter import DeadLetter
from roboco.errors import Overloaded, UsageError
from tests.support.memory_ports.world import World, world_parts


@pytest.mark.parametrize(
    ("error", "tenant", "letters"),
    [
        (UsageError("no team 'nope'"), None, 1),
        (UsageError("no team 'nope'"), "acme", 0),
        (Overloaded("too many turns wait"), None, 0),
    ],
)
def test_a_refused_team_is_logged_and_stored_unless_the_queues_were_full(
    error: UsageError | Overloaded, tenant: str | None, letters: int, caplog: pytest.LogCaptureFixture
) -> None:
    stored: list[DeadLetter] = []
    engine = SimpleNamespace(
        tasks=SimpleNamespace(dead_letters=SimpleNamespace(add=stored.append)),
        now=World(world_parts(lambda request: None)).engine.now,
    )
    orchestrator: Any = SimpleNamespace(_engine=engine, settings=SimpleNamespace(tenant=tenant))
    request = Context(id="c1", task="roboco.team", args=(), kwargs={}, delivery_info={"routing_key": "shop"})
    refuse(orchestrator, request, error)
    assert len(stored) == letters
    [record] = caplog.records
    assert record.levelname == "WARNING"
    assert ("; it is dead letter dead_" in record.getMessage()) is bool(letters)
