"""team: a team as a Celery signature."""

from pathlib import Path
from typing import Any, Literal, TypedDict, Unpack

from celery import Celery, Signature

from roboco.broker.names import TEAM_TASK
from roboco.domain.team.team import Team
from roboco.engine.workspace_records import team_as_data
from roboco.team_files.file import load_team

ResultForm = Literal["text", "summary", "output"]
OnWait = Literal["wait", "fail"]


class TeamOptions(TypedDict, total=False):
    """Options of a team's task beside its prompt; see `SubmitOptions` for each of them."""

    context: dict[str, Any]
    agent: str
    model: str
    title: str
    goals: list[dict[str, Any]]
    client_context: dict[str, Any]
    scope: dict[str, Any]
    state: dict[str, Any]
    notify: list[dict[str, Any]]


class TeamTask:
    """A team that can become a signature: `s` takes the result of the Celery task before it, `si` does not."""

    def __init__(self, kwargs: dict[str, Any], app: Celery | None) -> None:
        self._kwargs = kwargs
        self._app = app

    def s(self, *prompt: Any) -> Signature[Any]:
        """Return the signature. The team works on the result before it, or on a prompt."""
        return self._signature(prompt, immutable=False)

    def si(self, *prompt: Any) -> Signature[Any]:
        """Return the signature that ignores the result before it."""
        return self._signature(prompt, immutable=True)

    def _signature(self, prompt: tuple[Any, ...], immutable: bool) -> Signature[Any]:
        named = self._kwargs["team"]
        shown = {"team": named if isinstance(named, str) else named.get("name")}
        options = {"argsrepr": "()", "kwargsrepr": repr(shown)}  # neither prompts nor contexts
        kwargs = dict(self._kwargs)
        return Signature(TEAM_TASK, prompt, kwargs, options, immutable=immutable, app=self._app)


def team(
    team: str | Path | Team | dict[str, Any],
    prompt: str | None = None,
    *,
    result: ResultForm = "text",
    on_wait: OnWait = "wait",
    app: Celery | None = None,
    **options: Unpack[TeamOptions],
) -> TeamTask:
    """Return a team for a Celery canvas: `chain(fetch.s(), roboco.team("research").s(), publish.s())`.

    `team` is the name of one in the ROBOCO_TEAMS_DIR of the workers that run `install`, or a team itself, its file's
    path or object. If the result before it is a text, it is the prompt. If it is an object, it gives the fields of the
    submission (`prompt`, `context`, ...). Any other result is the prompt, as JSON. If there is a `prompt`, the result
    before it is in the context, as `previous`.

    The result of the team is its newest text, with `result="output"` the typed output of the agent that wrote it, or
    with `result="summary"` an object with text, status and usage. A team that waits for its user or an approval does
    not end the Celery task; with `on_wait="fail"` the Celery task fails and the team is stopped. `app` is Celery's
    current application by default; it needs `roboco.celery.install(app)`.
    """
    if isinstance(team, Path):
        team = load_team(team)
    named = team_as_data(team) if isinstance(team, Team) else team
    kwargs: dict[str, Any] = {"team": named, **options}
    if prompt is not None:
        kwargs["prompt"] = prompt
    return TeamTask(kwargs | {"result": result, "on_wait": on_wait}, app)
