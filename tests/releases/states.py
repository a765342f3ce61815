"""States of tasks that a release records: a journey that stops after some acts of its user and some messages."""

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from tests.releases.deployment import Deployment
from tests.support.memory_ports.controlled import CONTROLLED
from tests.support.memory_ports.journeys import JOURNEYS, MANUAL, Journey
from tests.support.memory_ports.notifications import HOOK
from tests.support.memory_ports.sweeping import fill_schedule
from tests.support.memory_ports.watch import Crash, PortCall

NOTIFIED = replace(MANUAL, options={"notify": [HOOK]})
ALL_JOURNEYS: dict[str, Journey] = {**JOURNEYS, **CONTROLLED, "notified": NOTIFIED}


@dataclass(frozen=True)
class State:
    """A journey after `acts` of its acts, and after `messages` more messages, which workers have received.

    With `dies` the worker of the next message dies as it calls its model or runs its tool.
    """

    journey: str
    acts: int
    messages: int
    dies: bool = False

    @property
    def name(self) -> str:
        """Return the name of the state."""
        return f"{self.journey}-{self.acts}-{self.messages}{'-dies' * self.dies}"

    def reach(self, deployment: Deployment) -> None:
        """Run the journey up to this state."""
        journey = ALL_JOURNEYS[self.journey]
        fill_schedule(deployment.engine)
        deployment.submit(journey.team, at_once=True, **journey.options)
        for act in journey.acts[: self.acts]:
            deployment.settle()
            act(deployment)
        for _ in range(self.messages):
            deployment.deliver(deployment.dispatcher.queue.popleft())
        if self.dies:
            deployment.watch = _dying
            deployment.deliver(deployment.dispatcher.queue.popleft())

    def finish(self, deployment: Deployment) -> None:
        """Run the rest of the journey."""
        deployment.settle()
        for act in ALL_JOURNEYS[self.journey].acts[self.acts :]:
            act(deployment)
            deployment.settle()


def _dying(name: str, call: PortCall) -> Any:
    if name in ("model.stream", "toolbox.run"):
        raise Crash
    return call()


def reachable(state: State, deployment: Deployment) -> bool:
    """Reach the state. Return False if the journey has no such state: it has fewer messages, or has ended."""
    with suppress(IndexError):
        state.reach(deployment)
        return bool(deployment.open_tasks())
    return False


STATES = tuple(
    State(journey, acts, messages, dies)
    for journey in sorted(ALL_JOURNEYS)
    for acts in range(len(ALL_JOURNEYS[journey].acts) + 1)
    for messages, dies in ((0, False), (0, True), (1, True), (2, False), (4, True), (7, False))
    if messages < 2 or acts < 1
)
