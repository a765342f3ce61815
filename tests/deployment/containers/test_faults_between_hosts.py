"""Some faults between hosts during loads. `python -m tests.deployment.containers.faults` runs all of them."""

import pytest

from tests.deployment.containers import faults
from tests.deployment.containers.deployment import POOLS, Deployment

pytestmark = [pytest.mark.slow, pytest.mark.workers]

HUNGRY = """
data = []
while True:
    data.append(b"x" * (64 << 20))
"""
"""A program that takes memory until the kernel ends a process of its container."""


@pytest.mark.parametrize("service", POOLS)
def test_a_worker_that_the_kernel_kills_for_memory_loses_nothing(deployment: Deployment, service: str) -> None:
    deployment.wait_healthy(POOLS)
    worker = deployment.first(service)
    load = deployment.start_load()
    deployment.prefer_as_victims(worker)
    printed = deployment.room.run("docker", "exec", worker, "python", "-c", HUNGRY, check=False)
    assert load.finish()["findings"] == []
    assert deployment.inspect(worker)["RestartCount"] == 1, printed


@pytest.mark.parametrize(
    "name",
    [
        "tools: kill",
        "agents: disconnect, long",
        "agents: sends, receives nothing",
        "redis: kill",
        "redis: slow link",
        "s3: pause, long",
        "coordinator: receives, sends nothing",
    ],
)
def test_a_fault_between_hosts_loses_and_doubles_nothing(deployment: Deployment, name: str) -> None:
    (fault,) = (one for one in faults.faults() if str(one) == name)
    assert faults.run(deployment, fault)["findings"] == []


@pytest.mark.parametrize("name", ["kill", "pause, long", "disconnect, long", "receives, sends nothing"])
def test_a_fault_of_the_gateway_costs_a_caller_no_step(deployment: Deployment, name: str) -> None:
    """The caller outside tries again, resumes its stream, and sees each step once."""
    (fault,) = (one for one in faults.faults_of("gateway") if one.name == name)
    assert faults.run(deployment, fault)["findings"] == []
