"""The servers that `roboco run` has to start, by the environment and the team."""

from typing import Any

import pytest

from roboco import Team, parse_team
from roboco.cli.stack.local_stack import MissingServers, missing_servers


def team(**profile: Any) -> Team:
    models = {"models": {"m": {"model": "m", **profile}}} if profile else {}
    return parse_team({"name": "t", "agents": [{"name": "a", "prompt": "p"}], **models})


REDIS = {"ROBOCO_REDIS_URL": "redis://elsewhere"}


@pytest.mark.parametrize(
    ("profile", "env", "worker", "expected"),
    [
        ({}, {}, False, MissingServers(redis=True, worker=True, model=True)),
        ({}, {"ROBOCO_REDIS_URL": ""}, False, MissingServers(redis=True, worker=True, model=True)),
        ({}, {"OPENAI_API_KEY": "k"}, False, MissingServers(redis=True, worker=True, model=False)),
        ({}, {"OPENAI_BASE_URL": "http://x"}, False, MissingServers(redis=True, worker=True, model=False)),
        ({"base_url": "http://x"}, {}, False, MissingServers(redis=True, worker=True, model=False)),
        ({"api_key_env": "MINE"}, {"MINE": "k"}, False, MissingServers(redis=True, worker=True, model=False)),
        ({"api_key_env": "MINE"}, {}, False, MissingServers(redis=True, worker=True, model=True)),
        ({}, REDIS, False, MissingServers(redis=False, worker=False, model=False)),
        ({}, REDIS, True, MissingServers(redis=False, worker=True, model=True)),
        ({}, REDIS | {"OPENAI_API_KEY": "k"}, True, MissingServers(redis=False, worker=True, model=False)),
    ],
)
def test_missing_servers_are_those_that_environment_and_team_lack(
    profile: dict[str, Any], env: dict[str, str], worker: bool, expected: MissingServers
) -> None:
    assert missing_servers(team(**profile), env, worker) == expected
