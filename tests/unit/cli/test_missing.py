"""What `run` has to start, by what the environment and the team name."""

from typing import Any

import pytest

from roboco import Team, team_from
from roboco.cli.stack.local_stack import Missing, missing


def team(**profile: Any) -> Team:
    models = {"models": {"m": {"model": "m", **profile}}} if profile else {}
    return team_from({"name": "t", "agents": [{"name": "a", "prompt": "p"}], **models})


REDIS = {"ROBOCO_REDIS_URL": "redis://elsewhere"}


@pytest.mark.parametrize(
    ("profile", "env", "worker", "expected"),
    [
        ({}, {}, False, Missing(redis=True, worker=True, model=True)),
        ({}, {"ROBOCO_REDIS_URL": ""}, False, Missing(redis=True, worker=True, model=True)),
        ({}, {"OPENAI_API_KEY": "k"}, False, Missing(redis=True, worker=True, model=False)),
        ({}, {"OPENAI_BASE_URL": "http://x"}, False, Missing(redis=True, worker=True, model=False)),
        ({"base_url": "http://x"}, {}, False, Missing(redis=True, worker=True, model=False)),
        ({"api_key_env": "MINE"}, {"MINE": "k"}, False, Missing(redis=True, worker=True, model=False)),
        ({"api_key_env": "MINE"}, {}, False, Missing(redis=True, worker=True, model=True)),
        ({}, REDIS, False, Missing(redis=False, worker=False, model=False)),
        ({}, REDIS, True, Missing(redis=False, worker=True, model=True)),
        ({}, REDIS | {"OPENAI_API_KEY": "k"}, True, Missing(redis=False, worker=True, model=False)),
    ],
)
def test_missing(profile: dict[str, Any], env: dict[str, str], worker: bool, expected: Missing) -> None:
    assert missing(team(**profile), env, worker) == expected
