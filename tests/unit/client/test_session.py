"""The session view of tasks: whole sessions, and deltas."""

from typing import Any

import pytest

from roboco.client.session import poll, session
from roboco.domain.history.part import ToolResult
from roboco.domain.history.tool_outcome import ToolOutcome
from roboco.domain.session.agent_session import agent_delta, agent_session
from roboco.domain.session.session import MessageStatus, SessionDelta, SessionMessage
from roboco.domain.status import TaskStatus
from roboco.errors import UsageError
from roboco.ports.model import Request
from tests.support.memory_ports.dispatcher import TurnMessage
from tests.support.memory_ports.journeys import JOURNEYS, MANUAL, SEQUENTIAL, member
from tests.support.memory_ports.model import ScriptedReply, says
from tests.support.memory_ports.watch import Crash
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
    world.submit(JOURNEYS[journey_name].team)
    clients.append(PollingClient(world, page=1 if every == 7 else None))
    JOURNEYS[journey_name].run(world, submitted=True)
    return world, clients[0]


@pytest.mark.parametrize("every", [1, 2, 3, 7])
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


def test_a_restarted_turn_is_rewound() -> None:
    worlds: list[World] = []
    seen: list[tuple[str, MessageStatus]] = []

    def meanwhile() -> None:
        client.poll()
        client.check()
        seen.append((client.messages[1].text, client.messages[1].status))
        if len(seen) == 1:
            raise Crash

    worlds.append(World(world_parts(lambda request: ScriptedReply(("half ", "said"), meanwhile=meanwhile))))
    client = PollingClient(worlds[0])
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


def test_an_interrupted_message_is_cancelled() -> None:
    worlds: list[World] = []

    def script(request: Request) -> ScriptedReply:
        if len(worlds[0].given.model.requests) == 1:
            return ScriptedReply(("half",), meanwhile=lambda: worlds[0].interrupt("shorter"))
        return says("brief")

    worlds.append(World(world_parts(script)))
    worlds[0].submit(team_of(agents=[member("only")]))
    worlds[0].settle()
    statuses = [(message.role.value, message.status.value) for message in session(worlds[0].engine, TASK).messages]
    assert statuses == [
        ("user", "completed"),
        ("assistant", "cancelled"),
        ("user", "completed"),
        ("assistant", "completed"),
    ]


def test_an_ended_task_that_left_redis_is_read_from_the_workspace() -> None:
    world = SEQUENTIAL.run(SEQUENTIAL.world())
    client = PollingClient(world)
    client.poll()
    world.server.wipe()
    client.poll()
    client.check()
    assert client.status is TaskStatus.COMPLETED
    late = PollingClient(world)
    late.poll()
    late.check()


def test_a_waiting_task_is_complete_after_a_loss_of_redis() -> None:
    world = MANUAL.world()
    world.submit(MANUAL.team)
    world.settle()
    client = PollingClient(world)
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


def test_a_turn_in_the_queue_is_not_started() -> None:
    world = SEQUENTIAL.world()
    world.submit(SEQUENTIAL.team)
    world.deliver(world.dispatcher.queue.popleft())
    assert isinstance(world.dispatcher.queue[0], TurnMessage)
    [_, message] = session(world.engine, TASK).messages
    assert (message.agent_name, message.status, message.content) == ("first", MessageStatus.NOT_STARTED, [])


def test_an_unknown_task_or_token_is_refused() -> None:
    world = SEQUENTIAL.world()
    with pytest.raises(UsageError, match="no task"):
        session(world.engine, "unknown")
    world.submit(SEQUENTIAL.team)
    with pytest.raises(UsageError, match="token"):
        poll(world.engine, TASK, "nonsense")


def waiting_for_a_user() -> World:
    world = MANUAL.world()
    world.submit(MANUAL.team)
    world.settle()
    assert world.status() is TaskStatus.USER_TURN
    return world


def test_a_message_that_no_worker_has_applied_makes_the_task_continue() -> None:
    world = waiting_for_a_user()
    whole = poll(world.engine, TASK, "")
    assert not whole.continues
    world.send("more", agent=MANUAL.team.agents[0].name)
    token = whole.changes.continuation_token
    sent = poll(world.engine, TASK, token)
    assert (sent.status, sent.continues, sent.changes.messages_by_idx) == (TaskStatus.USER_TURN, True, {})
    world.settle()
    answered = poll(world.engine, TASK, token)
    assert (answered.status, answered.continues) == (TaskStatus.USER_TURN, False)
    assert answered.changes.messages_by_idx


def test_a_resumption_alone_leaves_the_task_with_its_user() -> None:
    world = waiting_for_a_user()
    world.pause()
    world.settle()
    world.resume()
    world.settle()
    assert (world.status(), poll(world.engine, TASK, "").continues) == (TaskStatus.USER_TURN, False)


def test_a_task_continues_once_all_its_client_calls_are_answered() -> None:
    tool = {"name": "client_ask", "description": "asks", "input_schema": {"type": "object"}}
    script = lambda request: says("calling", ("client_ask", {"q": 1}), ("client_ask", {"q": 2}))  # noqa: E731
    world = World(world_parts(script))
    world.submit(team_of(agents=[member("only")]), client_tools=[tool])
    world.settle()
    first, second = (call.id for call in world.history()[-1].calls)
    continues = []
    for call_id in (first, second):
        continues.append(poll(world.engine, TASK, "").continues)
        world.answer(ToolOutcome(result=ToolResult(tool_call_id=call_id, result=1)))
    assert world.status() is TaskStatus.CLIENT_TOOL_TURN
    assert [*continues, poll(world.engine, TASK, "").continues] == [False, False, True]
