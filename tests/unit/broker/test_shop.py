"""shop: which Celery tasks of another application teams may use as tools."""

import pytest

from roboco import parse_team
from roboco.allowlist import Allowlist
from roboco.broker.shop import check_task
from roboco.cli.doctor.teams import forbidden_tasks
from roboco.domain.team.tool_spec import TaskTool
from roboco.errors import Forbidden, InvalidTeam
from roboco.settings import Settings

AGENTS = [{"name": "reader", "prompt": "read", "tools": ["parse"]}]
TOOL = {"name": "parse", "task": "docs.parse", "queue": "parsing", "description": "Parse."}


@pytest.mark.parametrize(
    ("task", "queue", "entry"),
    [("docs.parse", "other", "docs.parse@parsing"), ("a", "parsing", "a"), ("b", "celery", "a")],
)
def test_another_celery_task_or_queue_is_forbidden(task: str, queue: str, entry: str) -> None:
    with pytest.raises(Forbidden, match=f"Celery task '{task}@{queue}' is not allowed"):
        check_task(TaskTool(name="t", task=task, queue=queue, description="x"), (entry,))


def test_validation_compares_nested_teams_with_the_allowlist_if_it_lists_tasks() -> None:
    inner = {"name": "inner", "agents": AGENTS, "tools": [TOOL]}
    team = parse_team({"name": "desk", "agents": [{"name": "a", "prompt": "p"}], "teams": {"inner": inner}})
    [mistake] = forbidden_tasks(team, Settings(allowlist=Allowlist(tasks=("docs.other",))))
    assert mistake.startswith("teams.inner.tools[0].task: Celery task 'docs.parse@parsing' is not allowed")
    assert not list(forbidden_tasks(team, Settings()))


@pytest.mark.parametrize(
    ("field", "value", "mistake"),
    [
        ("parameters", {"type": "nothing"}, "tools[0].parameters: "),
        ("queue", "a b", "tools[0].queue: "),
        ("description", "", "tools[0].description: "),
        ("function", "a:b", "tools[0].function: no such field here"),
        ("on_stop", "wait", "tools[0].on_stop: "),
    ],
)
def test_mistakes_of_a_team_file_name_the_field(field: str, value: object, mistake: str) -> None:
    with pytest.raises(InvalidTeam) as error:
        parse_team({"name": "desk", "agents": AGENTS, "tools": [TOOL | {field: value}]})
    assert error.value.mistakes[0].startswith(mistake)
