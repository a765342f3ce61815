"""A gateway before the workers that modules share."""

from collections.abc import Iterator

import pytest

from tests.support.gateway_openai import answer
from tests.support.gateway_process import GatewayProcess
from tests.support.stack import Stack


@pytest.fixture(scope="module")
def openai_stack(stack_of_process: Stack) -> Stack:
    """Return the shared workers, whose model answers as OpenAI's clients expect."""
    stack_of_process.model.script(answer)
    return stack_of_process


@pytest.fixture(scope="session")
def gateway_of_process(stack_of_process: Stack) -> Iterator[GatewayProcess]:
    """Yield a gateway that stays until the test process ends: no test ends it."""
    with GatewayProcess(stack_of_process, openai_pass="seed") as started:
        yield started


@pytest.fixture(scope="module")
def gateway(openai_stack: Stack, gateway_of_process: GatewayProcess) -> GatewayProcess:
    """Return the gateway before the workers."""
    return gateway_of_process
