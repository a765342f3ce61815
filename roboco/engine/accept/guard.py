"""guard: accept a message from outside, and stop redelivering it if every attempt ends its worker (a poison message).

    start an attempt ─► accept ─► finish the attempt ─► acknowledge
          │               ├─ a server does not answer, the time limit is exceeded, or the memory is exhausted
          │               │    ─► pause ─► back to its queue
          │               └─ refused, or an unexpected error ─► dead letter ─► the error is raised
          └─ `policy.max_attempts` attempts have not finished ─► dead letter ─► acknowledge

These messages are acknowledged late, after they were accepted: until then nothing but the broker records them, and the
broker redelivers them if their worker dies. A message that ends its worker would thus end one worker after another. So
Redis counts the attempts that have begun and not finished, and a lease keeps two workers from processing one message.
An attempt that exceeds the time limit or the memory stays unfinished, like one whose worker was lost. If a server does
not answer, the attempt is finished and not counted: the message is not the cause.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from roboco.domain.dead_letter import DeadLetter
from roboco.engine.engine import Engine, TaskStores
from roboco.errors import Erased, Overloaded, TransientError, UsageError
from roboco.ports.lease_renewals import AttemptLease

REQUEUE_DELAY = 1.0
"""Seconds before a message returns to its queue."""
_ATTEMPTS_EXHAUSTED = "{} workers were lost, exceeded the time limit or ran out of memory while they processed it"


class IncomingMessage(Protocol):
    """A message from outside, as a worker has received it."""

    @property
    def message_id(self) -> str:
        """The id that the message keeps when it is redelivered."""

    @property
    def creates_task(self) -> bool:
        """True if the message submits or forks a task."""

    @property
    def time_limit_error(self) -> type[Exception]:
        """The exception that the worker's pool raises in the handler of the message at its time limit."""

    def dead_letter(self, reason: str, attempts: int, with_body: bool = True) -> DeadLetter:
        """Return the message as a dead letter with this reason."""

    def refuse(self, error: UsageError | Overloaded, reason: str | None) -> None:
        """Report the refusal to operators. If there is a `reason`, first store a dead letter with it."""


@dataclass(frozen=True)
class Acknowledge:
    """The message was accepted, or is stored as a dead letter."""


@dataclass(frozen=True)
class Requeue:
    """The message returns to its queue, because of this error."""

    error: Exception


Disposition = Acknowledge | Requeue
"""The future of a message that a worker holds."""


def process(engine: Engine, message: IncomingMessage, accept: Callable[[], object]) -> Disposition:
    """Accept the message. Return whether to acknowledge it or to return it to its queue.

    Raise UsageError if `accept` refuses the message, which becomes a dead letter if it was to create a task, unless
    that task was erased. Raise Overloaded if too many turns wait already. Any other error is raised as well, after a
    dead letter was stored. If a dead letter cannot be stored because a server does not answer, the message returns to
    its queue.
    """
    try:
        _process(engine, message, accept)
    except Overloaded:
        raise  # the producer submits again later: a message that returns to its queue would add to the load
    except (TransientError, message.time_limit_error, MemoryError) as error:
        with suppress(message.time_limit_error):  # exceeded in the pause: `error` stays the cause
            engine.clock.sleep(REQUEUE_DELAY)
        return Requeue(error)
    return Acknowledge()


def _process(engine: Engine, message: IncomingMessage, accept: Callable[[], object]) -> None:
    key = f"message:{message.message_id}"
    unfinished = engine.tasks.leases.start_attempt(key)
    if unfinished is None:
        raise TransientError("another worker is processing this message, or was lost less than one lease ago")
    if unfinished >= engine.policy.max_attempts:
        _give_up(engine.tasks, message, unfinished)
    else:
        with engine.process.heartbeat.renewing(AttemptLease(key)):
            _attempt(engine.tasks, message, key, accept)
    engine.tasks.leases.finish_attempts(key)


def _give_up(tasks: TaskStores, message: IncomingMessage, unfinished: int) -> None:
    """Store the dead letter of a message whose attempts are exhausted, without its body if memory does not suffice."""
    reason = _ATTEMPTS_EXHAUSTED.format(unfinished)
    try:
        tasks.dead_letters.add(message.dead_letter(reason, unfinished))
    except MemoryError:
        without = f"{reason}; its content is not kept, because the worker ran out of memory again"
        tasks.dead_letters.add(message.dead_letter(without, unfinished, with_body=False))


def _attempt(tasks: TaskStores, message: IncomingMessage, key: str, accept: Callable[[], object]) -> None:
    try:
        accept()
    except (message.time_limit_error, MemoryError):
        raise  # the attempt stays unfinished: a dead letter would need the memory again
    except Overloaded as error:
        tasks.leases.finish_attempts(key)
        message.refuse(error, None)  # a flood of these would push real losses out of the bounded store of dead letters
        raise
    except TransientError:
        tasks.leases.finish_attempts(key)
        raise
    except UsageError as error:
        tasks.leases.finish_attempts(key)
        message.refuse(error, f"refused: {error}" if message.creates_task and not isinstance(error, Erased) else None)
        raise  # a submission of an erased task leaves no letter: nothing could send it again, and it holds the prompt
    except Exception as error:
        tasks.dead_letters.add(message.dead_letter(f"{type(error).__name__}: {error}", 1))
        tasks.leases.finish_attempts(key)
        raise
