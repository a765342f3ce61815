"""Notify: the receivers of notices about a task's status, and the notices."""

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
"""The most receivers of one task."""
MAX_SIGNATURE = 64 * 1024
"""The largest Celery signature, in characters of its JSON."""
MAX_KEPT = 256 * 1024
"""The most characters that are kept for a receiver that confirms."""
MAX_TEXT = 16_000
"""The most characters of the last text that a notice carries."""
FINAL = tuple(status for status in TaskStatus if status.ended)


class Notify(Declared):
    """A receiver: a Celery signature, or a webhook signed with the secret in the variable `secret_env`.

    `on` are the statuses that it gets notices of: those in which a task has ended or waits. A signature with
    `confirmed` is sent again until its Celery task confirms the notice; `kept` is stored for that Celery task.
    """

    celery: dict[str, JsonValue] | None = None
    webhook: Annotated[str | None, Field(max_length=2000)] = None
    secret_env: Variable | None = None
    on: Annotated[tuple[TaskStatus, ...], Field(min_length=1)] = FINAL
    confirmed: bool = False
    kept: Annotated[str, Field(max_length=MAX_KEPT)] = ""

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
            raise ValueError(f"{passing[0]!r} passes too soon for a notice: follow the task's events instead")
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
        """The name of the receiver for people: of an address without its query, which may be a secret."""
        return (self.webhook or str((self.celery or {}).get("task"))).partition("?")[0]


_SHAPE = {"task", "args", "kwargs", "options", "subtask_type", "immutable", "chord_size"}


def check_callback(target: Notify, allowed: Iterable[str]) -> None:
    """Raise UsageError unless a callback is a plain signature that the operator allows. Webhooks are not checked here.

    `allowed` names Celery tasks: "TASK" for the broker's default queue, "TASK@QUEUE" for another one.
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
"""The key by which kombu's JSON marks an object that its reader makes a Python object of."""


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
    """Return the queue of a callback, "" for the default one.

    UsageError if the signature has more than a Celery task, its arguments and a queue, or if the shop's worker would
    make a Python object of an argument.
    """
    signature = target.celery or {}
    if _has_type(signature):
        raise UsageError(
            f"callback {target.named!r}: {_TYPE!r} is a key in the signature, and Celery would make a Python object of "
            "it; rename the key"
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
    """What is told, to which of those that are told (`target`), and how far that is; times in Unix seconds.

    `notice_id` is the same in every try; `round` counts how often it was given up and asked for again.
    `text` is what was said last, or its beginning with `cut`.
    """

    notice_id: str
    name: str
    target: int
    task_id: str
    team: str
    status: TaskStatus
    reason: str
    steps: int
    tokens_in: int
    tokens_out: int
    cost: float
    text: str
    cut: bool = False
    time: datetime
    outcome: Outcome = "pending"
    round: int = 0
    tries: int = 0
    first_at: float
    next_at: float
    error: str = ""

    def body(self) -> dict[str, Any]:
        """What those who are told get: an object with `id`, `type`, `timestamp` and `data`."""
        hidden = {"notice_id", "name", "target", "time", "outcome", "round", "tries", "first_at", "next_at", "error"}
        data = self.model_dump(mode="json", exclude=hidden)
        return {
            "id": self.notice_id,
            "type": f"task.{self.status}",
            "timestamp": self.time.isoformat(),
            "data": data,
        }

    def after_try(self, now: float, error: str, at_least: float = 0.0) -> "Notice":
        """The notice after one more try, which has not succeeded; the next one is so many seconds later, or more."""
        tries = self.tries + 1
        pause = max(at_least, pause_after(self.notice_id, tries))
        return self.model_copy(update={"tries": tries, "error": error[:1000], "next_at": now + pause})


FIRST_PAUSE = 5.0
LONGEST_PAUSE = 3600.0


def pause_after(notice_id: str, tries: int) -> float:
    """Seconds until the next try: they double from 5 up to an hour, and differ by a quarter from notice to notice."""
    pause = min(FIRST_PAUSE * 2.0 ** min(tries - 1, 20), LONGEST_PAUSE)
    share = int(sha256(f"{notice_id}/{tries}")[:8], 16) / 0xFFFFFFFF
    return pause * (0.75 + 0.5 * share)


_NAME = re.compile(r"(\d+)-(\d{8,})-(?:([0-9a-f]{12,})-([0-9a-f]{12,})-)?([a-z_]+(?:-[0-9a-f]{8})?)")
"""Earlier releases wrote neither generation nor epoch."""


@dataclass(frozen=True, order=True)
class NoticeName:
    """The name of a notice. Names of one target sort in the order of the decisions that they report.

    `seq` is the number of steps at that time, `generation` that of the logs and `epoch` the fence of the decision, so
    that a task which waits twice at the same position has two notices. `about` stands for status and reason.
    """

    target: int
    seq: int
    generation: str
    epoch: int
    about: str

    @property
    def place(self) -> tuple[int, int]:
        """The target and the position."""
        return self.target, self.seq

    def again_as(self, later: "NoticeName") -> bool:
        """Whether both report the same at one position, in different generations."""
        same = (self.place, self.about) == (later.place, later.about)
        return same and self.generation != later.generation

    def __str__(self) -> str:
        return f"{self.target}-{self.seq:08d}-{self.generation}-{self.epoch:012x}-{self.about}"

    @classmethod
    def of(cls, target: int, seq: int, fence: tuple[str, int], status: TaskStatus, reason: str) -> "NoticeName":
        """Return the name of the notice of the decision at this generation and epoch."""
        return cls(target, seq, *fence, f"{status}-{sha256(reason)[:8]}")

    @classmethod
    def is_one(cls, name: str) -> bool:
        """Whether this is the name of a notice."""
        return _NAME.fullmatch(name) is not None

    @classmethod
    def parse(cls, name: str) -> "NoticeName":
        """Return the parts of a name."""
        found = _NAME.fullmatch(name)
        if found is None:
            raise UsageError(f"there is no notice {name!r}: a name is TARGET-SEQ-GENERATION-EPOCH-STATUS-DIGEST")
        target, seq, generation, epoch, about = found.groups()
        return cls(int(target), int(seq), generation or "", int(epoch or "0", 16), about)


def notice_id_of(task_id: str, name: str) -> str:
    """The id of a notice: derived, so that it is the same however often it is told."""
    return f"msg_{sha256(f'{task_id}/{name}')[:32]}"


_TARGETS: TypeAdapter[list[Notify]] = TypeAdapter(list[Notify])


def as_stored(targets: list[Notify]) -> bytes:
    """Those who are told, as a file; the same ones always have the same bytes."""
    return canonical([target.model_dump(mode="json", exclude_defaults=True) for target in targets]).encode()


def read_targets(data: bytes) -> list[Notify]:
    """Those who are told, of such a file."""
    return _TARGETS.validate_json(data)
