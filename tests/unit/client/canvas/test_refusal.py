"""A refused `roboco.team` is a warning; it is a dead letter too if that says more than that there was no room."""

from types import SimpleNamespace
from typing import Any

import pytest

from roboco.client.canvas.refusal import refuse
from roboco.domain.dead_letter import DeadLetter
from roboco.errors import Overloaded, UsageError
from tests.support.memory_ports.world import World, given


@pytest.mark.parametrize(
    ("error", "tenant", "letters"),
    [
        (UsageError("no team 'nope'"), None, 1),
        (UsageError("no team 'nope'"), "acme", 0),
        (Overloaded("too many turns wait"), None, 0),
    ],
)
def test_a_refused_team_is_logged_and_kept_unless_there_was_no_room(
    error: UsageError | Overloaded, tenant: str | None, letters: int, caplog: pytest.LogCaptureFixture
) -> None:
    kept: list[DeadLetter] = []
    engine = SimpleNamespace(
        dead_letters=SimpleNamespace(add=kept.append), now=World(given(lambda request: None)).engine.now
    )
    orchestrator: Any = SimpleNamespace(_engine=engine, settings=SimpleNamespace(tenant=tenant))
    request = SimpleNamespace(id="c1", task="roboco.team", args=(), kwargs={}, delivery_info={"routing_key": "shop"})
    refuse(orchestrator, Request(request), error)
    assert len(kept) == letters
    [record] = caplog.records
    assert record.levelname == "WARNING"
    assert ("; it is dead letter dead_" in record.getMessage()) is bool(letters)


class Request(SimpleNamespace):
    """What a Celery task knows of its message."""

    def __init__(self, fields: SimpleNamespace) -> None:
        super().__init__(**vars(fields))

    def get(self, name: str, default: object = None) -> object:
        return getattr(self, name, default)
