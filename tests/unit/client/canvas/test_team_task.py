"""The Celery task `roboco.team`: the arguments of a submission."""

from types import SimpleNamespace
from typing import Any

import pytest

from roboco.client.canvas.team_task import TeamInvocation, submit_team
from roboco.client.options import SubmitOptions
from roboco.client.orchestrator import Orchestrator
from roboco.domain.notification import NotifyTarget
from roboco.domain.team.team import Team
from roboco.errors import UsageError

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
