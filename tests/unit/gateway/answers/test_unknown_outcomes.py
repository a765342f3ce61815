"""Calls with an unknown outcome of which a client resolves one after another, or sends the same answer twice."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest

from roboco.client.orchestrator import Orchestrator
from roboco.domain.status import TaskStatus
from roboco.domain.stream.event import StatusChanged
from roboco.domain.stream.item import StreamItem, TypedItem
from roboco.domain.stream.merged import Cursor
from roboco.gateway.answers.answer_stream import AnswerStream
from roboco.gateway.gateway import Gateway
from roboco.gateway.openai.accepting import AcceptedTurn, TurnRequest, accept_answers
from roboco.gateway.openai.repetition import Repetition
from roboco.gateway.openai.response_object import ResponseHead
from roboco.gateway.openai.turn import Resolved, Turn
from roboco.gateway.principal import LOCAL, Scope
from roboco.gateway.problem import Problem
from roboco.gateway.settings import GatewaySettings
from roboco.settings import Settings
from tests.support.gateway_callers import UNLIMITED
from tests.support.memory_ports.world import TASK, World
from tests.unit.engine.accept.test_resolve import world_with_unknown_outcome


class Desk:
    """A gateway before a task whose two payments have an unknown outcome."""

    def __init__(self, folder: Path) -> None:
        self.world: World = world_with_unknown_outcome(lost=2)
        orchestrator = Orchestrator(Settings(workspace=f"file://{folder}"))
        orchestrator._engine = self.world.engine
        settings: dict[str, Any] = {"authentication": False, **UNLIMITED}
        self.gateway = Gateway(orchestrator, GatewaySettings(**settings))
        self.caller = LOCAL
        self.first, _, self.second = (call.id for call in self.world.history()[1].calls)

    def send(self, *answers: Resolved) -> AcceptedTurn:
        """Send these answers."""
        request = TurnRequest(
            gateway=self.gateway,
            caller=self.caller,
            repetition=Repetition(LOCAL),
            team="team",
            turn=Turn(answers=answers),
            immediate=True,
            task_options={},
            message_options={},
        )
        return asyncio.run(accept_answers(request, TASK))


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    """Yield the gateway."""
    made = Desk(tmp_path)
    yield made
    made.gateway.close()


def waits_for(call_id: str) -> StreamItem:
    """Return the item of a task that waits for a resolution of the call."""
    data = StatusChanged(status=TaskStatus.APPROVAL, reason="unknown", calls=(call_id,))
    item: TypedItem[Literal["event_status"], StatusChanged] = TypedItem("event_status", data, str(Cursor()))
    return item


def test_an_answer_ends_if_another_call_waits_for_its_resolution(desk: Desk) -> None:
    accepted = desk.send(Resolved(desk.first, True, "paid 0"))
    answer = AnswerStream(ResponseHead(TASK, "team"), accepted.start)
    list(answer.feed(waits_for(desk.second)))
    assert answer.settled is not None
    assert (answer.settled.status, list(answer.unknown)) == ("incomplete", [desk.second])


def test_a_repeated_resolution_finds_the_answer_of_the_first(desk: Desk) -> None:
    both = Resolved(desk.first, True, "paid 0"), Resolved(desk.second, True, "paid 1")
    starts = [desk.send(*both).start.position for _ in range(2)]
    desk.world.settle()
    assert [*starts, desk.send(*both).start.position] == [2, 2, 2]
    assert [result.result for result in desk.world.history()[2].results] == ["paid 0", 3, "paid 1"]


def test_a_resolution_needs_the_scope_of_decisions(desk: Desk) -> None:
    desk.caller = replace(LOCAL, scopes=frozenset({Scope.CONTROL}))
    with pytest.raises(Problem, match="approve"):
        desk.send(Resolved(desk.first, True, None))
