"""The session view of tasks: whole, and as what is new."""

from typing import Any

import pytest

from roboco.client.session import delta, session
from roboco.domain.session.session import MessageStatus, SessionDelta, SessionMessage
from roboco.domain.status import TaskStatus
from roboco.errors import UsageError
from roboco.ports.model import Request
from tests.support.memory_ports.dispatcher import TurnMessage
from tests.support.memory_ports.journeys import JOURNEYS, MANUAL, SEQUENTIAL, member
from tests.support.memory_ports.model import Said, said
from tests.support.memory_ports.watch import Crash
from tests.support.memory_ports.world import TASK, World, given, team_of


class Client:
    """Polls deltas, as a browser would."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.messages: dict[int, SessionMessage] = {}
        self.token = ""
        self.status: TaskStatus | None = None

    def poll(self) -> SessionDelta:
        """Ask for what is new, and take it."""
        new = delta(self.world.engine, TASK, self.token)
        if new.rewind_to is not None:
            self.messages = {at: message for at, message in self.messages.items() if at < new.rewind_to}
        self.messages |= new.messages_by_idx
        self.token = new.continuation_token
        self.status = new.status or self.status
        return new

    def check(self) -> None:
        """It holds what a client holds that reads everything."""
        whole = session(self.world.engine, TASK)
        assert [self.messages[at] for at in sorted(self.messages)] == whole.messages
        assert sorted(self.messages) == list(range(len(whole.messages)))
        assert self.status is whole.status


def polling(journey_name: str, every: int) -> tuple[World, Client]:
    """A journey's world, polled at every so many port calls."""
    clients: list[Client] = []
    calls: list[str] = []

    def watch(name: str, call: Any) -> Any:
        answer = call()
        calls.append(name)
        if clients and len(calls) % every == 0 and name.startswith(("turns", "task_store", "calls")):
            client = clients[0]
            world.watch = lambda name, call: call()
            client.poll()
            client.check()
            world.watch = watch
        return answer

    world = JOURNEYS[journey_name].world(watch)
    world.submit(JOURNEYS[journey_name].team)
    clients.append(Client(world))
    JOURNEYS[journey_name].run(world, submitted=True)
    return world, clients[0]


@pytest.mark.parametrize("every", [1, 2, 3, 7])
@pytest.mark.parametrize("name", sorted(JOURNEYS))
def test_who_polls_holds_what_is_there(name: str, every: int) -> None:
    world, client = polling(name, every)
    client.poll()
    client.check()
    assert [message.text for message in client.messages.values()] == [step.text for step in world.history()]


def noting(seen: list[str]) -> Any:
    """A watch that notes the names of calls."""

    def watch(name: str, call: Any) -> Any:
        seen.append(name)
        return call()

    return watch


def test_nothing_new_costs_one_look() -> None:
    world = SEQUENTIAL.run(SEQUENTIAL.world())
    client = Client(world)
    client.poll()
    seen: list[str] = []
    world.watch = noting(seen)
    new = client.poll()
    assert (new.messages_by_idx, new.status, new.rewind_to, new.goals) == ({}, None, None, None)
    assert seen == ["task_store.load"]


def test_a_turn_that_begins_again_is_rewound() -> None:
    worlds: list[World] = []
    seen: list[tuple[str, MessageStatus]] = []

    def meanwhile() -> None:
        client.poll()
        client.check()
        seen.append((client.messages[1].text, client.messages[1].status))
        if len(seen) == 1:
            raise Crash

    worlds.append(World(given(lambda request: Said(("half ", "said"), meanwhile=meanwhile))))
    client = Client(worlds[0])
    worlds[0].submit(team_of(agents=[member("only")]))
    worlds[0].drain()
    worlds[0].clock.move(100)
    worlds[0].sweep()
    new = client.poll()
    client.check()
    assert (new.rewind_to, client.messages[1].text) == (1, "")
    assert client.messages[1].status is MessageStatus.NOT_STARTED
    worlds[0].settle()
    client.poll()
    client.check()
    assert seen == [("half said", MessageStatus.GENERATING)] * 2


def test_what_was_interrupted_is_cancelled() -> None:
    worlds: list[World] = []

    def script(request: Request) -> Said:
        if len(worlds[0].given.model.requests) == 1:
            return Said(("half",), meanwhile=lambda: worlds[0].interrupt("shorter"))
        return said("brief")

    worlds.append(World(given(script)))
    worlds[0].submit(team_of(agents=[member("only")]))
    worlds[0].settle()
    statuses = [(message.role.value, message.status.value) for message in session(worlds[0].engine, TASK).messages]
    assert statuses == [
        ("user", "completed"),
        ("assistant", "cancelled"),
        ("user", "completed"),
        ("assistant", "completed"),
    ]


def test_an_ended_task_that_redis_has_forgotten_is_read_from_the_workspace() -> None:
    world = SEQUENTIAL.run(SEQUENTIAL.world())
    client = Client(world)
    client.poll()
    world.server.wipe()
    client.poll()
    client.check()
    assert client.status is TaskStatus.COMPLETED
    late = Client(world)
    late.poll()
    late.check()


def test_a_waiting_task_whose_redis_was_lost() -> None:
    world = MANUAL.world()
    world.submit(MANUAL.team)
    world.settle()
    client = Client(world)
    client.poll()
    world.server.wipe()
    world.sweep()
    world.send("more")
    world.settle()
    client.poll()
    client.check()
    assert [message.text for message in client.messages.values()] == [
        "go",
        "helper answers go",
        "more",
        "helper answers more",
    ]


def test_a_session_says_what_the_task_is() -> None:
    world = World(given(lambda request: said("x")))
    models = {"small": {"model": "s", "default": True}, "large": {"model": "l"}}
    goal = {"name": "answer", "description": "a number", "schema": {"type": "object"}}
    team = team_of(agents=[member("only")], models=models, limits={"goal_prompts": 0})
    world.submit(team, "Find out.\nAll of it.", model="large", title=None, goals=[goal])
    first = session(world.engine, TASK)
    assert (first.title, first.model_profile, first.status) == ("Find out.", "large", TaskStatus.QUEUED)
    assert [goal.status for goal in first.goals] == ["open"]
    world.settle()
    assert [goal.status for goal in session(world.engine, TASK).goals] == ["failed"]
    assert delta(world.engine, TASK, first.continuation_token).goals == session(world.engine, TASK).goals


def test_a_turn_in_the_queue_is_not_started() -> None:
    world = SEQUENTIAL.world()
    world.submit(SEQUENTIAL.team)
    world.deliver(world.dispatcher.queue.popleft())
    assert isinstance(world.dispatcher.queue[0], TurnMessage)
    [_, message] = session(world.engine, TASK).messages
    assert (message.agent_name, message.status, message.content) == ("first", MessageStatus.NOT_STARTED, [])


def test_there_must_be_such_a_task_and_token() -> None:
    world = SEQUENTIAL.world()
    with pytest.raises(UsageError, match="no task"):
        session(world.engine, "unknown")
    world.submit(SEQUENTIAL.team)
    with pytest.raises(UsageError, match="token"):
        delta(world.engine, TASK, "nonsense")
