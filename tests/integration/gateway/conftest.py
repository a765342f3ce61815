"""Gateways before stacks of real workers."""

from collections.abc import Iterator

import pytest

from tests.support.gateway_openai import GatewayProcess, answer, openai_gateway, write_teams
from tests.support.stack import LONG_LEASE, Stack


@pytest.fixture(scope="module")
def openai_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Yield three real workers with the teams for OpenAI's clients."""
    folder = tmp_path_factory.mktemp("stack")
    with Stack(folder, lease_seconds=LONG_LEASE, teams_dir=write_teams(folder / "teams")) as stack:
        stack.model.script(answer)
        yield stack


@pytest.fixture(scope="module")
def gateway(openai_stack: Stack) -> Iterator[GatewayProcess]:
    """Yield a gateway before the stack."""
    with openai_gateway(openai_stack, ROBOCO_GATEWAY_OPENAI_PASS="seed") as started:
        yield started
