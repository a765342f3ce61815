"""Faults between hosts during loads whose histories are checked: python -m tests.deployment.containers.faults FOLDER

FOLDER keeps the engine and the images for the next run. `--only agents` runs the cases whose names contain "agents".
Each case prints a line; the command exits with 1 if one of them contradicts a guarantee.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.deployment.containers.deployment import HERE, LEASE_SECONDS, POOLS, Deployment, deployed
from tests.deployment.containers.images import load_or_build
from tests.deployment.containers.outside import call
from tests.deployment.containers.room import Room, missing
from tests.support.stack import until

SHORT_SECONDS, LONG_SECONDS = LEASE_SECONDS / 3, LEASE_SECONDS * 2.5
SERVERS = ("redis", "s3")
IMAGES = ("python", "redis", "seaweedfs")
DELAYED = ("!", "--out-interface", "lo", "--jump", "NFQUEUE", "--queue-num", "0", "--queue-bypass")
"""The packets that delay.py gets."""


@dataclass(frozen=True)
class Fault:
    """A fault of a service for some seconds. `begin` causes it and `end` repairs it."""

    name: str
    service: str
    begin: Callable[[Deployment, str], None]
    end: Callable[[Deployment, str], None]
    seconds: float

    def __str__(self) -> str:
        return f"{self.service}: {self.name}"

    def strike(self, deployment: Deployment) -> None:
        """Cause the fault, wait, and repair it, also if causing it fails halfway: the next cases use the deployment."""
        try:
            self.begin(deployment, self.service)
            time.sleep(self.seconds)
        finally:
            self.end(deployment, self.service)


def _nothing(deployment: Deployment, service: str) -> None:
    """Repair nothing: Docker starts the container again."""


def _reconnect(deployment: Deployment, service: str) -> None:
    deployment.reconnect()


def _drop(chain: str, change: str) -> Callable[[Deployment, str], None]:
    """Return a function that adds ("-A") or removes ("-D") the rule that loses the packets of one direction."""

    def act(deployment: Deployment, service: str) -> None:
        interface = "--out-interface" if chain == "OUTPUT" else "--in-interface"
        deployment.in_network(service, "iptables", change, chain, "!", interface, "lo", "--jump", "DROP")

    return act


def _lose(change: str) -> Callable[[Deployment, str], None]:
    """Return a function that adds ("-A") or removes ("-D") rules that lose every tenth packet of both directions."""

    def act(deployment: Deployment, service: str) -> None:
        with ExitStack() as steps:  # each of them, also if one fails
            for chain, interface in (("INPUT", "--in-interface"), ("OUTPUT", "--out-interface")):
                chosen = ("!", interface, "lo", "--match", "statistic", "--mode", "random", "--probability", "0.1")
                steps.callback(deployment.in_network, service, "iptables", change, chain, *chosen, "--jump", "DROP")

    return act


def _delay(deployment: Deployment, service: str) -> None:
    """Delay each packet that the container sends by 200 ms."""
    deployment.in_network(service, "sh", "-c", f"python3 {HERE}/delay.py 0.2 >/dev/null 2>&1 &")
    until(lambda: _delayed_packets(deployment, service) is not None, 30, "delay.py has the queue of packets")
    deployment.in_network(service, "iptables", "-A", "OUTPUT", *DELAYED)


def _stop_delay(deployment: Deployment, service: str) -> None:
    with ExitStack() as steps:  # each of them, also if one fails
        steps.callback(deployment.room.run, "pkill", "-f", f"{HERE}/delay.py")
        steps.callback(deployment.in_network, service, "iptables", "-D", "OUTPUT", *DELAYED)
        assert _delayed_packets(deployment, service), "no packet was delayed"


def _delayed_packets(deployment: Deployment, service: str) -> int | None:
    """Return how many packets delay.py has got, or None if it does not have the kernel's queue."""
    queues = deployment.in_network(service, "cat", "/proc/net/netfilter/nfnetlink_queue").split()
    return int(queues[7]) if queues else None


def _slow(deployment: Deployment, service: str) -> None:
    """Limit what the container sends to 64 kbit/s, with a queue of a second."""
    for interface in _interfaces(deployment, service):
        limits = ("tbf", "rate", "64kbit", "burst", "4kb", "latency", "1s")
        deployment.in_network(service, "tc", "qdisc", "add", "dev", interface, "root", *limits)


def _fast(deployment: Deployment, service: str) -> None:
    for interface in _interfaces(deployment, service):
        deployment.in_network(service, "tc", "qdisc", "del", "dev", interface, "root")


def _interfaces(deployment: Deployment, service: str) -> list[str]:
    """Return the names of the container's interfaces, which a reconnection changes."""
    lines = deployment.in_network(service, "ip", "-brief", "link").splitlines()
    return [name for name in (line.split()[0].partition("@")[0] for line in lines) if name != "lo"]


def _fill(deployment: Deployment, service: str) -> None:
    """Fill the disk of the service. Its volume is a small one."""
    deployment.run_in(service, "sh", "-c", "dd if=/dev/zero of=/data/filler bs=64k 2>/dev/null; true")


def _empty(deployment: Deployment, service: str) -> None:
    """Free the space. SeaweedFS refuses some writes until it is restarted, as the runbook says."""
    deployment.run_in(service, "rm", "/data/filler")
    if service == "s3":
        deployment.room.run("docker", "restart", deployment.first(service))


def faults() -> Iterator[Fault]:
    """Yield every fault of every service."""
    for service in (*POOLS, *SERVERS, "gateway"):
        yield from faults_of(service)


def faults_of(service: str) -> Iterator[Fault]:
    """Yield every fault of the service."""
    yield Fault("kill", service, Deployment.kill, _nothing, 0)
    for length, seconds in (("short", SHORT_SECONDS), ("long", LONG_SECONDS)):
        yield Fault(f"pause, {length}", service, Deployment.pause, Deployment.unpause, seconds)
        yield Fault(f"disconnect, {length}", service, Deployment.disconnect, _reconnect, seconds)
    yield Fault("sends, receives nothing", service, _drop("INPUT", "-A"), _drop("INPUT", "-D"), LONG_SECONDS)
    yield Fault("receives, sends nothing", service, _drop("OUTPUT", "-A"), _drop("OUTPUT", "-D"), LONG_SECONDS)
    yield Fault("slow link", service, _slow, _fast, LONG_SECONDS)
    yield Fault("loss", service, _lose("-A"), _lose("-D"), LONG_SECONDS)
    yield Fault("delay", service, _delay, _stop_delay, LONG_SECONDS)


def disk_faults() -> Iterator[Fault]:
    """Yield the full disks, for a deployment with small ones."""
    for service in SERVERS:
        yield Fault("full disk", service, _fill, _empty, LONG_SECONDS)


def broker_faults() -> Iterator[Fault]:
    """Yield every fault of RabbitMQ, for a deployment that has it."""
    yield from faults_of("rabbitmq")


def run(deployment: Deployment, fault: Fault, tasks: int = 6) -> dict[str, Any]:
    """Strike while a load runs. Return the findings of the load, and add the seconds that it took.

    The gateway has no part in the load. Its faults strike while a caller outside follows a task.
    """
    deployment.wait_healthy({*POOLS, *SERVERS, fault.service})
    began = time.monotonic()
    if fault.service == "gateway":
        with call(deployment) as caller:
            fault.strike(deployment)
            found = caller.finish()
        findings = [] if found["status"] == "completed" else [str(found)]
        return {"findings": findings, "resumed": found["resumed"], "seconds": round(time.monotonic() - began)}
    load = deployment.start_load(tasks)
    try:
        fault.strike(deployment)
    finally:
        found = load.finish()
    return found | {"seconds": round(time.monotonic() - began)}


def strike_all(deployment: Deployment, chosen: Iterable[Fault]) -> int:
    """Run the cases. Return how many of them contradict a guarantee, or end with an error."""
    failed = 0
    for fault in chosen:
        try:
            found = run(deployment, fault)
        except (AssertionError, ValueError, subprocess.SubprocessError) as error:
            found = {"findings": [str(error)]}
        failed += bool(found["findings"])
        print(f"{fault}: {json.dumps(found)}", flush=True)
    return failed


def main() -> None:
    """Run the cases, and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    if reason := missing():
        sys.exit(f"no engine can run here: {reason}")
    failed = 0
    for cases, images, files in (
        (faults(), IMAGES, ()),
        (disk_faults(), IMAGES, (f"{HERE}/compose.disks.yaml",)),
        (broker_faults(), (*IMAGES, "rabbitmq"), (f"{HERE}/compose.rabbitmq.yaml",)),
    ):
        chosen = [fault for fault in cases if options.only in str(fault)]
        if not chosen:
            continue
        with Room(options.folder.resolve()) as room, deployed(room, load_or_build(room, images), *files) as deployment:
            failed += strike_all(deployment, chosen)
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
