"""Chaos: random sequences of reordered, repeated and lost messages, crashes, lost data and concurrent processes."""

from collections import Counter
from functools import partial
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from roboco.domain.history.step import verify_chain
from roboco.domain.paths import open_marker_path
from roboco.domain.status import TaskStatus
from roboco.engine.engine import Policy
from roboco.errors import TransientError, UsageError
from roboco.ports.model import Request
from roboco.ports.tools import ToolContext
from tests.support.memory_ports.journeys import member, own_turns, speaker
from tests.support.memory_ports.model import ScriptedReply, says
from tests.support.memory_ports.reader import items_of, read_items
from tests.support.memory_ports.watch import Crash, PortCall, make_call
from tests.support.memory_ports.world import TASK, World, team_of, world_parts

TEAM = team_of(
    agents=[member("lead", tools=["add", "pay"], handoffs=["closer"]), member("closer"), member("other")],
    tools=[
        {"name": "add", "function": "shop.sums:add", "effect": "pure"},
        {"name": "pay", "function": "shop.bank:pay", "effect": "irreversible"},
    ],
    collaboration_model={"type": "graph", "routing_graph": {"lead": ["other"], "closer": ["USER"], "other": ["USER"]}},
    limits={"max_steps": 1000},
)


def script(request: Request) -> ScriptedReply:
    """Return the lead's calls, payments and handoffs in turn; the other agents only answer."""
    if speaker(request) != "lead":
        return says(f"{speaker(request)} spoke {own_turns(request)}")
    match own_turns(request) % 3:
        case 0:
            return says("adding", ("add", {"a": 1}), ("pay", {"to": own_turns(request)}), ("nothing", {}))
        case 1:
            return says("", ("pay", {"to": own_turns(request)}), ("handoff", {"destination_agent": "closer"}))
        case _:
            return says("nothing to do")


class Chaos:
    """A world and the actions of a test, one after the other."""

    def __init__(self) -> None:
        self.paid: Counter[str] = Counter()
        self.accepted: list[str] = []
        self.stopped = False
        functions = {"add": lambda args, context: args["a"] + 1, "pay": self._pay}
        self.world = World(world_parts(script, functions, policy=Policy(15.0, 10.0, max_attempts=1000)))
        self.world.submit(TEAM)

    def _pay(self, args: dict[str, Any], context: ToolContext) -> str:
        self.paid[context.call_id] += 1
        return "paid"

    def deliver(self, number: int) -> None:
        """Have a worker take one of the messages."""
        queue = self.world.dispatcher.queue
        if queue:
            message = queue[number % len(queue)]
            queue.remove(message)
            self.world.deliver(message)

    def deliver_again(self, number: int) -> None:
        """Have a worker take a message that stays in the queue, or one that was taken earlier."""
        sent = self.world.dispatcher.sent
        self.world.deliver(sent[number % len(sent)])

    def drop(self, number: int) -> None:
        """Lose a message."""
        queue = self.world.dispatcher.queue
        if queue:
            queue.remove(queue[number % len(queue)])

    def drain(self, _: int) -> None:
        """Deliver all messages."""
        self.world.drain()

    def send(self, number: int) -> None:
        """Send a message of the user."""
        text = f"message {len(self.accepted)}"
        try:
            self.world.send(text, f"item{len(self.accepted)}", agent=[None, "lead", "other"][number % 3])
        except UsageError:
            assert self.stopped
        else:
            self.accepted.append(text)

    def stop(self, number: int) -> None:
        """Stop the task, in one of five cases."""
        if number % 5 == 0:
            self.world.stop()
            self.stopped = True

    def submit(self, _: int) -> None:
        """Repeat the submission."""
        self.world.submit(TEAM)

    def wipe(self, _: int) -> None:
        """Lose all data of Redis."""
        self.world.server.wipe()

    def wait(self, number: int) -> None:
        """Let time pass, and a sweeper sweep."""
        self.world.clock.move(number)
        self.world.sweep()

    def crash(self, number: int) -> None:
        """Have the process that makes one of the next port calls crash after it."""
        self._at(number, self._die)

    def fail(self, number: int) -> None:
        """Have one of the next port calls time out after its effect."""
        self._at(number, self._no_answer)

    def meanwhile(self, number: int) -> None:
        """Have another process work after one of the next port calls."""
        self._at(number, lambda: self.deliver(number))

    def _at(self, number: int, act: Any) -> None:
        left = [number % 12]

        def watch(name: str, call: PortCall) -> Any:
            answer = call()
            left[0] -= 1
            if left[0] < 0:
                self.world.watch = make_call
                act()
            return answer

        self.world.watch = watch

    def _die(self) -> None:
        raise Crash

    def _no_answer(self) -> None:
        raise TransientError("no answer")

    def finish(self) -> None:
        """Settle the task without further faults, and stop it if it has not ended."""
        self.world.watch = make_call
        self.world.settle()
        if not self.world.summary().status.ended:
            self.world.stop("last")
            self.world.settle()


ACTIONS = ["deliver", "deliver", "drain", "deliver_again", "drop", "send", "stop", "submit", "wipe", "wait"]
ACTIONS += ["crash", "crash", "fail", "meanwhile", "meanwhile"]
ACTION_SEQUENCES = st.lists(st.tuples(st.sampled_from(ACTIONS), st.integers(0, 40)), max_size=40)


@settings(max_examples=80)
@given(ACTION_SEQUENCES)
def test_the_guarantees_hold_for_any_sequence_of_faults(run: list[tuple[str, int]]) -> None:
    chaos = Chaos()
    for name, number in run:
        getattr(chaos, name)(number)
    chaos.finish()
    world, history = chaos.world, chaos.world.history()
    assert not [error for error in world.failures if not isinstance(error, TransientError)]
    assert verify_chain(world.histories.lines(TASK)) == len(history)

    assert world.summary().status is TaskStatus.CANCELLED
    assert world.summary().steps == len(history)
    assert open_marker_path(TASK) not in world.files.held
    assert TASK not in world.server.held.schedule

    calls = [call.id for step in history for call in step.calls]
    assert calls == [result.tool_call_id for step in history for result in step.results]
    assert all(count == 1 for count in chaos.paid.values())
    assert set(chaos.paid) <= set(calls)

    said_by_user = Counter(step.text for step in history[1:] if step.agent_name == "user")
    assert all(count == 1 for count in said_by_user.values())
    assert set(said_by_user) <= set(chaos.accepted)
    assert chaos.stopped or set(said_by_user) == set(chaos.accepted)

    numbers: dict[tuple[str, bool], list[int]] = {}
    for record in world.published():
        numbers.setdefault((record["generation"], "chunks" in record), []).append(record["seq"])
    assert all(channel == list(range(1, len(channel) + 1)) for channel in numbers.values())
    assert read_items(items_of(world.published(), partial(world.histories.read, TASK))).steps == history

    before = world.history(), dict(world.files.held)
    for _ in range(3):
        world.clock.move(4000)
        world.sweep()
        world.drain()
    assert (world.history(), world.files.held) == before
