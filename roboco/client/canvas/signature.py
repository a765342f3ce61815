"""team: a team as a Celery signature."""

from pathlib import Path
from typing import Any, Literal, TypedDict, Unpack

from celery import Celery, Signature

from roboco.adapters.celery.names import TEAM
from roboco.adapters.team.file import load_team
from roboco.domain.team.team import Team
from roboco.engine.frozen_teams import team_as_data

Gives = Literal["text", "summary"]
OnWait = Literal["wait", "fail"]


class Asked(TypedDict, total=False):
    """What may be said of a team's task beside its prompt; see `Wished` for what each means."""

    context: dict[str, Any]
    agent: str
    model: str
    title: str
    goals: list[dict[str, Any]]
    client_context: dict[str, Any]
    scope: dict[str, Any]
    notify: list[dict[str, Any]]


class TeamTask:
    """A team that is ready to become a signature: `s` takes what came before it, `si` does not."""

    def __init__(self, kwargs: dict[str, Any], app: Celery | None) -> None:
        self._kwargs = kwargs
        self._app = app

    def s(self, *prompt: Any) -> Signature[Any]:
        """The signature: the result before it, or a prompt, is what the team works on."""
        return self._signature(prompt, immutable=False)

    def si(self, *prompt: Any) -> Signature[Any]:
        """The signature that leaves the result before it alone."""
        return self._signature(prompt, immutable=True)

    def _signature(self, prompt: tuple[Any, ...], immutable: bool) -> Signature[Any]:
        named = self._kwargs["team"]
        shown = {"team": named if isinstance(named, str) else named.get("name")}
        options = {"argsrepr": "()", "kwargsrepr": repr(shown)}  # neither prompts nor contexts
        kwargs = dict(self._kwargs)
        return Signature(TEAM, prompt, kwargs, options, immutable=immutable, app=self._app)


def team(
    team: str | Path | Team | dict[str, Any],
    prompt: str | None = None,
    *,
    result: Gives = "text",
    on_wait: OnWait = "wait",
    app: Celery | None = None,
    **asked: Unpack[Asked],
) -> TeamTask:
    """A team for a Celery canvas: `chain(fetch.s(), roboco.team("research").s(), publish.s())`.

    `team` is the name of one in the ROBOCO_TEAMS_DIR of the workers that run `install`, or a team itself, its file's
    path or object. The result before it is the prompt, if it is a text; the fields of a submission (`prompt`,
    `context`, ...), if it is an object; else the prompt is its JSON. If there is a
    `prompt`, it is `previous` in the context.

    The result is what was said last, or with `result="summary"` an object with text, status and what was used. A team
    that waits for its user or an approval does not end the Celery task; with `on_wait="fail"` it fails it, and is
    stopped. The application is Celery's current one if `app` names none; it needs `roboco.celery.install(app)`.
    """
    if isinstance(team, Path):
        team = load_team(team)
    named = team_as_data(team) if isinstance(team, Team) else team
    kwargs: dict[str, Any] = {"team": named, **asked}
    if prompt is not None:
        kwargs["prompt"] = prompt
    return TeamTask(kwargs | {"result": result, "on_wait": on_wait}, app)
