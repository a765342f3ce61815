"""Notifications of a task's status: their targets, their names and their retry schedule."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Literal, Self

from pydantic import Field, JsonValue, TypeAdapter, field_validator, model_validator

from roboco.domain.canonical_json import canonical, sha256
from roboco.domain.schema import Declared, Recorded, Variable
from roboco.domain.status import TaskStatus
from roboco.errors import UsageError

MOST = 8
"""The largest number of targets of one task."""
MAX_SIGNATURE = 64 * 1024
"""The largest Celery signature, in characters of its JSON."""
MAX_KEPT = 256 * 1024
"""The largest `kept` text of a target, in characters."""
MAX_TEXT = 16_000
"""The largest text of an agent in a notification, in characters."""
FINAL = tuple(status for status in TaskStatus if status.ended)


class Notify(Declared):
    """A target of notifications: a Celery signature, or a webhook."""

    celery: dict[str, JsonValue] | None = None
    """The Celery signature that is sent."""
    webhook: Annotated[str | None, Field(max_length=2000)] = None
    """The URL of the webhook."""
    secret_env: Variable | None = None
    """The environment variable with the secret that signs the webhook's requests."""
    on: Annotated[tuple[TaskStatus, ...], Field(min_length=1)] = FINAL
    """The statuses that are reported to the target: those in which a task has ended or waits."""
    confirmed: bool = False
    """True if the signature is sent again until its Celery task confirms the notification."""
    kept: Annotated[str, Field(max_length=MAX_KEPT)] = ""
    """Text that is stored for that Celery task."""

    @field_validator("celery")
    @classmethod
    def _is_signature(cls, signature: dict[str, JsonValue] | None) -> dict[str, JsonValue] | None:
        if signature is not None and not isinstance(signature.get("task"), str):
            raise ValueError("is not a signature: 'task' must be the name of a Celery task")
        if (size := len(canonical(signature))) > MAX_SIGNATURE:
            raise ValueError(f"has {size} characters of JSON, at most {MAX_SIGNATURE} are possible")
        return signature

    @field_validator("on")
    @classmethod
    def _can_be_told(cls, statuses: tuple[TaskStatus, ...]) -> tuple[TaskStatus, ...]:
        if passing := [status.value for status in statuses if not (status.ended or status.waiting)]:
            raise ValueError(f"{passing[0]!r} passes too soon for a notification: follow the task's events instead")
        return statuses

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        if (self.celery is None) == (self.webhook is None):
            raise ValueError("give either 'celery' or 'webhook'")
        if (self.webhook is None) != (self.secret_env is None):
            raise ValueError("give 'secret_env', the variable with the secret, with 'webhook' and only with it")
        if self.confirmed and self.celery is None:
            raise ValueError("a webhook confirms by its answer: 'confirmed' is for signatures")
        return self

    @property
    def named(self) -> str:
        """Return the name of the target for people. The query of a URL is left out, since it may be a secret."""
        return (self.webhook or str((self.celery or {}).get("task"))).partition("?")[0]


_SHAPE = {"task", "args", "kwargs", "options", "subtask_type", "immutable", "chord_size"}


def check_callback(target: Notify, allowed: Iterable[str]) -> None:
    """Raise UsageError unless a callback is a plain signature that the operator allows. Webhooks are not checked here.

    `allowed` lists Celery tasks: "TASK" for the broker's default queue, "TASK@QUEUE" for another one.
    """
    if target.celery is None:
        return
    if target.confirmed or target.kept:
        raise UsageError(f"callback {target.named!r}: leave out 'confirmed' and 'kept', which only Roboco sets")
    queue = check_plain(target)
    task = str(target.celery["task"])
    wanted = f"{task}@{queue}" if queue else task
    if "@" in task or wanted not in allowed:
        raise UsageError(
            f"callback {wanted!r} is not allowed: add it to ROBOCO_ALLOWED_CALLBACKS of the coordinators and of the "
            f"submitting service; allowed callbacks: {', '.join(allowed) or 'none'}"
        )


_TYPE = "__type__"
"""The key by which kombu's JSON marks an object that its reader turns into a Python object."""


def _has_type(signature: dict[str, JsonValue]) -> bool:
    waiting: list[JsonValue] = [signature]
    while waiting:
        match waiting.pop():
            case dict(value):
                if _TYPE in value:
                    return True
                waiting += value.values()
            case list(items):
                waiting += items
            case _:
                pass
    return False


def check_plain(target: Notify) -> str:
    """Return the queue of a callback, or "" for the default one.

    Raise UsageError if the signature has more than a Celery task, its arguments and a queue. Raise it also if the
    receiving worker would turn an argument into a Python object.
    """
    signature = target.celery or {}
    if _has_type(signature):
        raise UsageError(
            f"callback {target.named!r}: {_TYPE!r} is a key in the signature, and Celery would make a Python "
            "object of it; rename the key"
        )
    options = signature.get("options") or {}
    if other := sorted(signature.keys() - _SHAPE):
        raise UsageError(f"callback {target.named!r}: {other[0]!r:.80} is not supported; leave it out")
    if signature.get("subtask_type") is not None:
        raise UsageError(f"callback {target.named!r}: name a single Celery task, not a canvas")
    if not isinstance(options, dict) or (other := sorted(options.keys() - {"queue"})):
        found = f"option {other[0]!r:.80}" if isinstance(options, dict) else f"'options' {options!r:.80}"
        raise UsageError(f"callback {target.named!r}: {found} is not supported; the only option is 'queue'")
    if not isinstance(signature.get("args", []), list) or not isinstance(signature.get("kwargs", {}), dict):
        raise UsageError(f"callback {target.named!r}: 'args' must be a list, and 'kwargs' an object")
    queue = options.get("queue")
    if queue is not None and not (isinstance(queue, str) and 0 < len(queue) <= 255 and queue.isprintable()):
        raise UsageError(f"callback {target.named!r}: option 'queue' is {queue!r:.80}, expected the name of a queue")
    return queue or ""


Outcome = Literal["pending", "delivered", "given_up"]


class Notice(Recorded):
    """A notification of one target, and the state of its delivery. Times are in Unix seconds."""

    notice_id: str
    """The id of the notification, which is the same in every attempt."""
    name: str
    """The text of its `NoticeName`."""
    target: int
    """The index of the target in the task's list of targets."""
    task_id: str
    team: str
    status: TaskStatus
    reason: str
    steps: int
    tokens_in: int
    tokens_out: int
    cost: float
    text: str
    """The last text of an agent."""
    cut: bool = False
    """True if the text is truncated."""
    time: datetime
    outcome: Outcome = "pending"
    round: int = 0
    """How often delivery was given up and then requested again."""
    tries: int = 0
    """The number of delivery attempts."""
    first_at: float
    next_at: float
    error: str = ""

    def body(self) -> dict[str, Any]:
        """Return the object that the target receives, with `id`, `type`, `timestamp` and `data`."""
        hidden = {"notice_id", "name", "target", "time", "outcome", "round", "tries", "first_at", "next_at", "error"}
        data = self.model_dump(mode="json", exclude=hidden)
        return {
            "id": self.notice_id,
            "type": f"task.{self.status}",
            "timestamp": self.time.isoformat(),
            "data": data,
        }

    def after_try(self, now: float, error: str, at_least: float = 0.0) -> "Notice":
        """Return the notification after one more failed attempt.

        The next attempt is due after the retry delay, and after at least `at_least` seconds.
        """
        tries = self.tries + 1
        pause = max(at_least, pause_after(self.notice_id, tries))
        return self.model_copy(update={"tries": tries, "error": error[:1000], "next_at": now + pause})


FIRST_PAUSE = 5.0
LONGEST_PAUSE = 3600.0


def pause_after(notice_id: str, tries: int) -> float:
    """Return the seconds until the next attempt. They double from 5 up to an hour, with a jitter of a quarter.

    The jitter is derived from the id and the number of attempts, so that every process computes the same delay.
    """
    pause = min(FIRST_PAUSE * 2.0 ** min(tries - 1, 20), LONGEST_PAUSE)
    share = int(sha256(f"{notice_id}/{tries}")[:8], 16) / 0xFFFFFFFF
    return pause * (0.75 + 0.5 * share)


_NAME = re.compile(r"(\d+)-(\d{8,})-(?:([0-9a-f]{12,})-([0-9a-f]{12,})-)?([a-z_]+(?:-[0-9a-f]{8})?)")
"""Earlier releases wrote neither generation nor epoch."""


@dataclass(frozen=True, order=True)
class NoticeName:
    """The name of a notification. Names of one target sort in the order of the decisions that they report."""

    target: int
    seq: int
    """The number of steps at the time of the decision."""
    generation: str
    """The generation of the logs."""
    epoch: int
    """The fence of the decision: a task that waits twice at the same position has two notifications."""
    about: str
    """The status, and a digest of the reason."""

    @property
    def place(self) -> tuple[int, int]:
        """Return the target and the position."""
        return self.target, self.seq

    def again_as(self, later: "NoticeName") -> bool:
        """Return True if both report the same at one position, in different generations."""
        same = (self.place, self.about) == (later.place, later.about)
        return same and self.generation != later.generation

    def __str__(self) -> str:
        return f"{self.target}-{self.seq:08d}-{self.generation}-{self.epoch:012x}-{self.about}"

    @classmethod
    def of(cls, target: int, seq: int, fence: tuple[str, int], status: TaskStatus, reason: str) -> "NoticeName":
        """Return the name of the notification of the decision at this generation and epoch."""
        return cls(target, seq, *fence, f"{status}-{sha256(reason)[:8]}")

    @classmethod
    def is_one(cls, name: str) -> bool:
        """Return True if this is a valid name of a notification."""
        return _NAME.fullmatch(name) is not None

    @classmethod
    def parse(cls, name: str) -> "NoticeName":
        """Return the parts of a name.

        Raise UsageError if it is not valid.
        """
        found = _NAME.fullmatch(name)
        if found is None:
            raise UsageError(f"there is no notification {name!r}: a name is TARGET-SEQ-GENERATION-EPOCH-STATUS-DIGEST")
        target, seq, generation, epoch, about = found.groups()
        return cls(int(target), int(seq), generation or "", int(epoch or "0", 16), about)


def notice_id_of(task_id: str, name: str) -> str:
    """Return the id of a notification. It is derived, so that it is the same in every delivery."""
    return f"msg_{sha256(f'{task_id}/{name}')[:32]}"


_TARGETS: TypeAdapter[list[Notify]] = TypeAdapter(list[Notify])


def as_stored(targets: list[Notify]) -> bytes:
    """Return the content of the file that stores the targets. Equal targets have equal bytes."""
    return canonical([target.model_dump(mode="json", exclude_defaults=True) for target in targets]).encode()


def read_targets(data: bytes) -> list[Notify]:
    """Return the targets that such a file stores."""
    return _TARGETS.validate_json(data)
