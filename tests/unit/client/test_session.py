"""The session view of tasks: whole sessions, and deltas."""

from typing import Any

import pytest

from roboco.client.session import poll, session
from roboco.domain.session.agent_session import agent_delta, agent_session
from roboco.domain.session.session import SessionDelta, SessionMessage
from roboco.domain.status import TaskStatus
from roboco.errors import UsageError
from tests.support.memory_ports.journeys import JOURNEYS, SEQUENTIAL, member
from tests.support.memory_ports.model import says
from tests.support.memory_ports.world import TASK, World, team_of, world_parts


class PollingClient:
    """A client that polls deltas, as a browser does; pages of these bytes of steps."""

    def __init__(self, world: World, page: int | None = None) -> None:
        self.world = world
        self.page = page
        self.messages: dict[int, SessionMessage] = {}
        self.token = ""
        self.status: TaskStatus | None = None

    def poll(self) -> SessionDelta:
        """Poll a delta, and apply it, with those that follow at once."""
        new = poll(self.world.engine, TASK, self.token, self.page).changes
        if new.rewind_to is not None:
            self.messages = {index: message for index, message in self.messages.items() if index < new.rewind_to}
        self.messages |= new.messages_by_idx
        self.token = new.continuation_token
        self.status = new.status or self.status
        return self.poll() if new.more else new

    def check(self) -> None:
        """Assert that the client holds the messages and status of the whole session."""
        whole = session(self.world.engine, TASK)
        assert [self.messages[index] for index in sorted(self.messages)] == whole.messages
        assert sorted(self.messages) == list(range(len(whole.messages)))
        assert self.status is whole.status


def run_and_poll(journey_name: str, every: int) -> tuple[World, PollingClient]:
    """Run a journey, and poll at every `every`-th port call of stores. Return its world and the client."""
    clients: list[PollingClient] = []
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
    world.submit(JOURNEYS[journey_name].team, **JOURNEYS[journey_name].options)
    clients.append(PollingClient(world, page=1 if every == 7 else None))
    JOURNEYS[journey_name].run(world, submitted=True)
    return world, clients[0]


@pytest.mark.parametrize("every", [1, 7])
@pytest.mark.parametrize("name", sorted(JOURNEYS))
def test_a_polling_client_holds_the_whole_session(name: str, every: int) -> None:
    world, client = run_and_poll(name, every)
    client.poll()
    client.check()
    assert [message.text for message in client.messages.values()] == [step.text for step in world.history()]


def test_a_session_ends_before_the_step_with_which_it_is_too_large() -> None:
    world = SEQUENTIAL.run(SEQUENTIAL.world())
    whole = session(world.engine, TASK)
    limit = sum(len(step.line()) for step in world.history()[:2])
    first = session(world.engine, TASK, limit)
    assert (first.messages, first.more, first.status) == (whole.messages[:2], True, whole.status)
    rest = poll(world.engine, TASK, first.continuation_token, 10**9).changes
    assert (list(rest.messages_by_idx.values()), rest.more) == (whole.messages[2:], False)
    assert rest.continuation_token == whole.continuation_token
    assert (agent_session(first).status, agent_session(whole).status) == ("roboto_turn", "user_turn")
    page = poll(world.engine, TASK, "", limit).changes
    assert (page.status, agent_delta(page).status) == (None, "roboto_turn")


def record_names(seen: list[str]) -> Any:
    """Return a watch that records the names of port calls."""

    def watch(name: str, call: Any) -> Any:
        seen.append(name)
        return call()

    return watch


def test_a_poll_without_news_costs_one_load() -> None:
    world = SEQUENTIAL.run(SEQUENTIAL.world())
    client = PollingClient(world)
    client.poll()
    seen: list[str] = []
    world.watch = record_names(seen)
    new = client.poll()
    assert (new.messages_by_idx, new.status, new.rewind_to, new.goals) == ({}, None, None, None)
    assert seen == ["task_store.load"]


def test_a_session_has_title_model_status_and_goals() -> None:
    world = World(world_parts(lambda request: says("x")))
    models = {"small": {"model": "s", "default": True}, "large": {"model": "l"}}
    goal = {"name": "answer", "description": "a number", "schema": {"type": "object"}}
    team = team_of(agents=[member("only")], models=models, limits={"goal_prompts": 0})
    world.submit(team, "Find out.\nAll of it.", model="large", title=None, goals=[goal])
    first = session(world.engine, TASK)
    assert (first.title, first.model_profile, first.status) == ("Find out.", "large", TaskStatus.QUEUED)
    assert [goal.status for goal in first.goals] == ["open"]
    world.settle()
    assert [goal.status for goal in session(world.engine, TASK).goals] == ["failed"]
    assert poll(world.engine, TASK, first.continuation_token).changes.goals == session(world.engine, TASK).goals


def test_an_unknown_task_or_token_is_refused() -> None:
    world = SEQUENTIAL.world()
    with pytest.raises(UsageError, match="no task"):
        session(world.engine, "unknown")
    world.submit(SEQUENTIAL.team)
    with pytest.raises(UsageError, match="token"):
        poll(world.engine, TASK, "nonsense")
