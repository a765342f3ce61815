"""Each operation costs a known number of requests to S3, so that a regression is seen.

Client, coordinator and agents worker are separate processes, each with its own caches. A row is a phase: its requests,
by method and kind of object.
"""

from collections import Counter
from collections.abc import Callable

import pytest

from roboco.domain.inbox.item import UserMessage
from roboco.engine.accept.accept_item import IdLookup
from roboco.engine.accept.control import accept_message
from roboco.engine.coordinate.advance import advance
from roboco.engine.run.turn import run_turn
from roboco.workspace.s3_history import S3Histories
from tests.support.memory_ports.dispatcher import AdvanceMessage, TurnMessage
from tests.support.memory_ports.journeys import member, speaker
from tests.support.memory_ports.model import says
from tests.support.memory_ports.objects import MemoryObjects, ObjectFiles
from tests.support.memory_ports.world import TASK, World, team_of, world_parts

Requests = Counter[str]

APPEND = Counter(["PUT history/", "HEAD history.jsonl"])
SUBMIT = APPEND + Counter(
    ["GET task_1", "PUT team.json", "PUT task.json", "GET early_files.json", "PUT _open", "LIST inbox/"]
)
"""The first one looks for the receipt of an erased task, the fourth for files that another caller has uploaded."""
TURN = APPEND
READ_TEAM = Counter(["GET team.json"])
FIRST_WAIT = Counter(
    ["GET task.json", "GET events.jsonl", "LIST events/", "PUT events.jsonl", "PUT task.json", "GET _open"]
)
WAIT = FIRST_WAIT - Counter(["LIST events/"])
SEND = Counter(["PUT inbox/", "GET _open"])
APPLY = APPEND + Counter(["GET _open", "GET inbox/", "PUT applied/", "DELETE inbox/"])
CLOSE = Counter(
    {
        "GET _open": 2,
        "PUT _open": 2,
        "DELETE _open": 1,
        "GET history.jsonl": 1,
        "LIST history/": 1,
        "GET history/": 3,
        "PUT history.jsonl": 1,
        "DELETE history/": 3,
        "GET events.jsonl": 1,
        "LIST events/": 1,
        "PUT events.jsonl": 1,
        "GET task.json": 1,
        "PUT task.json": 1,
    }
)
"""A task of three steps."""


class Deployment:
    """Three processes over objects in memory."""

    def __init__(self) -> None:
        self.objects = MemoryObjects()
        self.world = world = World(world_parts(lambda request: says(f"{speaker(request)} answers")))
        world.files, world.histories = ObjectFiles(self.objects), S3Histories(self.objects)  # type: ignore[assignment]
        self.client, self.coordinator, self.agents = (world.process() for _ in range(3))
        world.engine = self.client
        self.client.process.switches.repair()  # once for a deployment, after Redis was empty

    def requests_of(self, operation: Callable[[], object]) -> Requests:
        """Return the requests of the operation."""
        self.objects.requests.clear()
        operation()
        return Counter(f"{method} {_kind(path)}" for method, path in self.objects.requests)

    def submit(self, agents: int, collaboration_model: str) -> Requests:
        """Submit a task of a team of this many agents."""
        members = [member(f"agent{number}") for number in range(agents)]
        team = team_of(agents=members, collaboration_model={"type": collaboration_model})
        return self.requests_of(lambda: self.world.submit(team, at_once=True))

    def send(self, item_id: str, lookup: IdLookup) -> Requests:
        """Send a message."""
        item = UserMessage(item_id=item_id, created_at=self.client.now(), text="more")
        return self.requests_of(lambda: accept_message(self.client, TASK, item, lookup=lookup))

    def deliver_all(self) -> list[Requests]:
        """Deliver the messages between workers. Return the requests of each."""
        found: list[Requests] = []
        while self.world.dispatcher.queue:
            found.append(self.requests_of(self._deliver_next))
        return found

    def _deliver_next(self) -> None:
        match self.world.dispatcher.queue.popleft():
            case AdvanceMessage(task_id):
                advance(self.coordinator, task_id)
            case TurnMessage(assignment):
                run_turn(self.agents, assignment)
            case other:
                raise AssertionError(other)


def _kind(path: str) -> str:
    """Return the folder of the path, or its file, without ids."""
    top, _, rest = path.partition("/")
    if top == "_open":
        return top
    folder, slash, _ = rest.partition("/")
    return folder + slash


@pytest.fixture
def waiting() -> Deployment:
    """Return a deployment whose task waits for its user."""
    deployment = Deployment()
    deployment.submit(1, "manual")
    deployment.deliver_all()
    return deployment


def test_requests_of_a_submission_and_its_first_turn() -> None:
    deployment = Deployment()
    assert deployment.submit(1, "manual") == SUBMIT
    assert deployment.deliver_all() == [TURN + READ_TEAM, FIRST_WAIT + READ_TEAM]


def test_requests_of_a_task_of_two_turns() -> None:
    deployment = Deployment()
    assert deployment.submit(2, "sequential") == SUBMIT
    assert deployment.deliver_all() == [TURN + READ_TEAM, TURN, CLOSE + READ_TEAM]


def test_requests_of_a_message(waiting: Deployment) -> None:
    for number in range(3):
        assert waiting.send(f"item{number}", "new id") == SEND
        assert waiting.deliver_all() == [APPLY, TURN, WAIT]
    assert sum((SEND + APPLY + TURN + WAIT).values()) == 15
