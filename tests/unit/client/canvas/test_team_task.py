"""The Celery task `roboco.team`: the arguments of a submission, and its refusal."""

from types import SimpleNamespace
from typing import Any

import pytest
from celery.app.task import Context

from roboco.client.canvas.team_task import TeamInvocation, refuse, submit_team
from roboco.client.options import SubmitOptions
from roboco.client.orchestrator import Orchestrator
from roboco.domain.dead_letter import DeadLetter
from roboco.domain.notification import NotifyTarget
from roboco.domain.team.team import Team
from roboco.errors import Overloaded, UsageError
from tests.support.memory_ports.world import World, world_parts

ECHO = {"name": "echo", "agents": [{"name": "echo", "prompt": "You repeat."}]}


@pytest.mark.parametrize(
    ("args", "kwargs"), [((), {"prompt": "x", "tenant": "acme"}), (({"prompt": "x", "tenant": "acme"},), {})]
)
def test_submission_in_a_canvas_with_a_tenant_is_refused(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """The id of the task is derived from the Celery task's id, so that a revoke finds it."""
    app: Any = None
    invocation = TeamInvocation(
        app=app, request=SimpleNamespace(id="c-1", is_eager=True), ignore_result=True, queue=None
    )
    orchestrator: Any = SimpleNamespace(settings=SimpleNamespace(teams_dir=None))
    with pytest.raises(UsageError, match="tenant: a team in a canvas is of the tenant of its worker"):
        submit_team(orchestrator, invocation, args, {"team": ECHO, **kwargs})


def test_conversation_in_a_canvas_is_refused() -> None:
    """The canvas continues at the end of the task, and a conversation does not end by itself."""
    options: SubmitOptions = {"conversation": True}
    with Orchestrator() as orchestrator, pytest.raises(UsageError, match="conversation: a team in a canvas must end"):
        orchestrator.run_in_canvas(Team.model_validate(ECHO), "x", options, NotifyTarget.model_construct())


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
