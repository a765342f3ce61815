"""The Celery task `roboco.team`: what a message may say of the task to submit."""

from types import SimpleNamespace
from typing import Any

import pytest

from roboco.client.canvas.team_task import TeamInvocation, submit_team
from roboco.errors import UsageError

ECHO = {"name": "echo", "agents": [{"name": "echo", "prompt": "You repeat."}]}


@pytest.mark.parametrize(
    ("given", "asked"), [((), {"prompt": "x", "tenant": "acme"}), (({"prompt": "x", "tenant": "acme"},), {})]
)
def test_submission_in_a_canvas_with_a_tenant_is_refused(given: tuple[Any, ...], asked: dict[str, Any]) -> None:
    """Its id is derived from the Celery task's, by which a revoke finds it."""
    app: Any = None
    order = TeamInvocation(app=app, request=SimpleNamespace(id="c-1", is_eager=True), ignore_result=True, queue=None)
    orchestrator: Any = SimpleNamespace(settings=SimpleNamespace(teams_dir=None))
    with pytest.raises(UsageError, match="tenant: a team in a canvas is of the tenant of its worker"):
        submit_team(orchestrator, order, given, {"team": ECHO, **asked})
