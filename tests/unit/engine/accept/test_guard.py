"""The guard of external messages: how each result of an attempt affects the message and the count of attempts."""

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from roboco.domain.dead_letter import DeadLetter
from roboco.engine.accept.guard import REQUEUE_DELAY, Acknowledge, Requeue, process
from roboco.errors import Erased, Overloaded, TransientError, UsageError
from tests.support.memory_ports.model import says
from tests.support.memory_ports.world import POLICY, World, world_parts

ATTEMPTS_KEY = "message:m-1"


class TimeLimit(Exception):
    """The error of a pool whose time limit is exceeded."""


@dataclass
class Received:
    """An external message. `refusals` are the reasons with which it was refused."""

    world: World
    creates_task: bool = True
    message_id: str = "m-1"
    time_limit_error: type[Exception] = TimeLimit
    refusals: list[str | None] = field(default_factory=list)
    exhausts_memory: bool = False
    """Whether a dead letter with its body needs too much memory."""

    def dead_letter(self, reason: str, attempts: int, with_body: bool = True) -> DeadLetter:
        if with_body and self.exhausts_memory:
            raise MemoryError
        now = self.world.engine.now()
        return DeadLetter(letter_id="dead_1", reason=reason, time=now, attempts=attempts)

    def refuse(self, error: UsageError | Overloaded, reason: str | None) -> None:
        self.refusals.append(reason)


def empty_world() -> World:
    """Return a world without a task."""
    return World(world_parts(lambda request: says("")))


def raising(error: BaseException) -> Callable[[], None]:
    def accept() -> None:
        raise error

    return accept


def dead_letters_of(world: World) -> list[tuple[str, int]]:
    return [(letter.reason, letter.attempts) for letter in world.engine.tasks.dead_letters.entries()]


def unfinished_attempts(world: World) -> int:
    """Return the attempts that count against the message when the lease of the last one has expired."""
    world.clock.sleep(POLICY.lease + 1)
    return world.engine.tasks.leases.count_attempt(ATTEMPTS_KEY)


def test_message_returns_to_its_queue_after_a_pause_if_a_server_does_not_answer() -> None:
    world, error = empty_world(), TransientError("redis is away")
    start = world.clock.now()
    assert process(world.engine, Received(world), raising(error)) == Requeue(error)
    assert world.clock.now() == pytest.approx(start + REQUEUE_DELAY, abs=0.1)
    assert unfinished_attempts(world) == 0


def test_message_that_another_worker_processes_returns_and_is_not_accepted() -> None:
    world, accepted = empty_world(), list[int]()
    assert world.engine.tasks.leases.start_attempt(ATTEMPTS_KEY) == 0
    disposition = process(world.engine, Received(world), lambda: accepted.append(1))
    assert isinstance(disposition, Requeue)
    assert "another worker is processing this message" in str(disposition.error)
    assert not accepted


def test_a_dead_letter_that_needs_too_much_memory_is_stored_without_its_body() -> None:
    """Otherwise the message would return to its queue for ever."""
    world = empty_world()
    for _ in range(POLICY.max_attempts):
        process(world.engine, Received(world), raising(MemoryError()))
        world.clock.sleep(POLICY.lease + 1)
    message = Received(world, exhausts_memory=True)
    assert process(world.engine, message, lambda: None) == Acknowledge()
    [(reason, attempts)] = dead_letters_of(world)
    assert reason.endswith("its content is not kept, because the worker ran out of memory again")
    assert attempts == POLICY.max_attempts


@pytest.mark.parametrize(
    ("error", "creates_task", "refusals", "letters"),
    [
        (UsageError("no team"), True, ["refused: no team"], []),
        (UsageError("no team"), False, [None], []),
        (Overloaded("2 turns wait"), True, [None], []),
        (Erased("task 't' was erased"), True, [None], []),
        (KeyError("x"), True, [], [("KeyError: 'x'", 1)]),
    ],
)
def test_refusal_or_error_raises_and_leaves_a_letter_only_if_a_task_is_lost(
    error: Exception, creates_task: bool, refusals: list[str | None], letters: list[tuple[str, int]]
) -> None:
    world = empty_world()
    message = Received(world, creates_task)
    with pytest.raises(type(error)):
        process(world.engine, message, raising(error))
    assert (message.refusals, dead_letters_of(world)) == (refusals, letters)
    assert unfinished_attempts(world) == 0
