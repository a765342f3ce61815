"""Notifications of a task's status: their targets, their names and their retry schedule."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Literal, Self

from pydantic import Field, JsonValue, TypeAdapter, field_validator, model_validator
from pydantic.json_schema import SkipJsonSchema

from roboco.domain.canonical_json import canonical_json, sha256
from roboco.domain.push_notification import PushConfig
from roboco.domain.schema import EnvVarName, InputModel, RecordModel
from roboco.domain.status import TaskStatus
from roboco.errors import Forbidden, NotFound, UsageError

MAX_TARGETS = 8
"""The largest number of targets of one task, and of its receivers of push notifications."""
MAX_SIGNATURE_CHARS = 64 * 1024
"""The largest Celery signature, in characters of its JSON."""
MAX_CONTINUATION_CHARS = 256 * 1024
"""The largest `continuation` text of a target, in characters."""
MAX_TEXT_CHARS = 16_000
"""The largest text of an agent in a notification, in characters."""
TARGET_COUNT_KEY = "notify"
"""The key in the metadata of a task's first step with the number of its targets. With 0, push receivers may follow."""
FINAL_STATUSES = tuple(status for status in TaskStatus if status.ended)


class NotifyTarget(InputModel):
    """A target of notifications: a Celery signature, or a webhook."""

    celery: dict[str, JsonValue] | None = None
    """The Celery signature that is sent."""
    webhook: Annotated[str | None, Field(max_length=2000)] = None
    """The URL of the webhook."""
    secret_env: EnvVarName | None = None
    """The environment variable with the secret that signs the webhook's requests."""
    on: Annotated[tuple[TaskStatus, ...], Field(min_length=1)] = FINAL_STATUSES
    """The statuses that are reported to the target: those in which a task has ended or waits."""
    confirmed: bool = False
    """True if the signature is sent again until its Celery task confirms the notification."""
    continuation: Annotated[str, Field(max_length=MAX_CONTINUATION_CHARS)] = ""
    """Text that is stored for that Celery task."""
    push: SkipJsonSchema[PushConfig | None] = None
    """The configuration of A2A that names the webhook."""

    @field_validator("celery")
    @classmethod
    def _is_signature(cls, signature: dict[str, JsonValue] | None) -> dict[str, JsonValue] | None:
        if signature is not None and not isinstance(signature.get("task"), str):
            raise ValueError("is not a signature: 'task' must be the name of a Celery task")
        if (size := len(canonical_json(signature))) > MAX_SIGNATURE_CHARS:
            raise ValueError(f"has {size} characters of JSON, at most {MAX_SIGNATURE_CHARS} are possible")
        return signature

    @field_validator("on")
    @classmethod
    def _can_be_notified(cls, statuses: tuple[TaskStatus, ...]) -> tuple[TaskStatus, ...]:
        if passing := [status.value for status in statuses if not (status.ended or status.waiting)]:
            raise ValueError(f"{passing[0]!r} passes too soon for a notification: follow the task's events instead")
        return statuses

    @model_validator(mode="after")
    def _is_one_receiver(self) -> Self:
        if (self.celery is None) == (self.webhook is None):
            raise ValueError("give either 'celery' or 'webhook'")
        if self.push is None and (self.webhook is None) != (self.secret_env is None):
            raise ValueError("give 'secret_env', the variable with the secret, with 'webhook' and only with it")
        if self.confirmed and self.celery is None:
            raise ValueError("a webhook confirms by its answer: 'confirmed' is for signatures")
        return self

    @property
    def label(self) -> str:
        """Return the name of the target for people. The query of a URL is left out, since it may be a secret."""
        return (self.webhook or str((self.celery or {}).get("task"))).partition("?")[0]


_SIGNATURE_KEYS = {"task", "args", "kwargs", "options", "subtask_type", "immutable", "chord_size"}


def check_callback(target: NotifyTarget, allowed: Iterable[str]) -> None:
    """Raise UsageError unless a callback is a plain signature that the operator allows. Webhooks are not checked here.

    `allowed` lists Celery tasks: "TASK" for the broker's default queue, "TASK@QUEUE" for another one.
    """
    if target.push is not None:
        raise UsageError(f"webhook {target.label!r}: leave out 'push', which only the gateway sets")
    if target.celery is None:
        return
    if target.confirmed or target.continuation:
        raise UsageError(f"callback {target.label!r}: leave out 'confirmed' and 'continuation', which only Roboco sets")
    queue = callback_queue(target)
    task = str(target.celery["task"])
    wanted = f"{task}@{queue}" if queue else task
    if "@" in task or wanted not in allowed:
        raise Forbidden(
            f"callback {wanted!r} is not allowed: add it to callbacks of ROBOCO_ALLOWLIST for the coordinators and for "
            f"the submitting service; allowed callbacks: {', '.join(allowed) or 'none'}"
        )


_TYPE_MARK = "__type__"
"""The key by which kombu's JSON marks an object that its reader turns into a Python object."""


def has_type_mark(value: JsonValue) -> bool:
    """Return True if kombu would make another Python object of a part of the value."""
    waiting: list[JsonValue] = [value]
    while waiting:
        match waiting.pop():
            case dict(value):
                if _TYPE_MARK in value:
                    return True
                waiting += value.values()
            case list(items):
                waiting += items
            case _:
                pass
    return False


def callback_queue(target: NotifyTarget) -> str:
    """Return the queue of a callback, or "" for the default one.

    Raise UsageError if the signature has more than a Celery task, its arguments and a queue. Raise it also if the
    receiving worker would turn an argument into a Python object.
    """
    signature = target.celery or {}
    if has_type_mark(signature):
        raise UsageError(
            f"callback {target.label!r}: {_TYPE_MARK!r} is a key in the signature, and Celery would make a Python "
            "object of it; rename the key"
        )
    options = signature.get("options") or {}
    if other := sorted(signature.keys() - _SIGNATURE_KEYS):
        raise UsageError(f"callback {target.label!r}: {other[0]!r:.80} is not supported; leave it out")
    if signature.get("subtask_type") is not None:
        raise UsageError(f"callback {target.label!r}: name a single Celery task, not a canvas")
    if not isinstance(options, dict) or (other := sorted(options.keys() - {"queue"})):
        found = f"option {other[0]!r:.80}" if isinstance(options, dict) else f"'options' {options!r:.80}"
        raise UsageError(f"callback {target.label!r}: {found} is not supported; the only option is 'queue'")
    if not isinstance(signature.get("args", []), list) or not isinstance(signature.get("kwargs", {}), dict):
        raise UsageError(f"callback {target.label!r}: 'args' must be a list, and 'kwargs' an object")
    queue = options.get("queue")
    if queue is not None and not (isinstance(queue, str) and 0 < len(queue) <= 255 and queue.isprintable()):
        raise UsageError(f"callback {target.label!r}: option 'queue' is {queue!r:.80}, expected the name of a queue")
    return queue or ""


DeliveryStatus = Literal["pending", "delivered", "given_up"]


class Notification(RecordModel):
    """A notification of one target, and the state of its delivery. Times are in Unix seconds."""

    notification_id: str
    """The id of the notification, which is the same in every attempt."""
    name: str
    """The text of its `NotificationName`."""
    target: int
    """The index of the target in the task's list of targets, or the place of a push receiver."""
    task_id: str
    team: str
    status: TaskStatus
    reason: str
    retry_of: str = ""
    """The failed task with whose retry the task began."""
    steps: int
    tokens_in: int
    tokens_out: int
    cost: float
    text: str
    """The last text of an agent."""
    truncated: bool = False
    """True if the text is truncated."""
    output: Any = None
    """The typed output of that agent; None if it has none, or if the text is truncated."""
    time: datetime
    delivery: DeliveryStatus = "pending"
    round: int = 0
    """How often delivery was given up and then requested again."""
    attempts: int = 0
    """The number of delivery attempts."""
    first_attempt_at: float
    next_attempt_at: float
    error: str = ""

    def body(self, push: PushConfig | None = None) -> dict[str, Any]:
        """Return the object that the target receives: `id`, `type`, `timestamp` and `data`, or that of a `push`."""
        if push is not None:
            return push.body(self.status, self.reason, self.time, self.notification_id)
        own = {"notification_id", "name", "target", "time"}
        delivery = {"delivery", "round", "attempts", "first_attempt_at", "next_attempt_at", "error"}
        data = self.model_dump(mode="json", exclude=own | delivery)
        return {
            "id": self.notification_id,
            "type": f"task.{self.status}",
            "timestamp": self.time.isoformat(),
            "data": data,
        }

    def after_attempt(self, now: float, error: str, at_least: float = 0.0) -> "Notification":
        """Return the notification after one more failed attempt.

        The next attempt is due after the retry delay, and after at least `at_least` seconds.
        """
        tries = self.attempts + 1
        pause = max(at_least, retry_delay(self.notification_id, tries))
        return self.model_copy(update={"attempts": tries, "error": error[:1000], "next_attempt_at": now + pause})


FIRST_RETRY_DELAY = 5.0
MAX_RETRY_DELAY = 3600.0


def retry_delay(notice_id: str, tries: int) -> float:
    """Return the seconds until the next attempt. They double from 5 up to an hour, with a jitter of a quarter.

    The jitter is derived from the id and the number of attempts, so that every process computes the same delay.
    """
    pause = min(FIRST_RETRY_DELAY * 2.0 ** min(tries - 1, 20), MAX_RETRY_DELAY)
    share = int(sha256(f"{notice_id}/{tries}")[:8], 16) / 0xFFFFFFFF
    return pause * (0.75 + 0.5 * share)


_NAME_PATTERN = re.compile(r"(\d+)-(\d{8,})-(?:([0-9a-f]{12,})-([0-9a-f]{12,})-)?([a-z_]+(?:-[0-9a-f]{8})?)")
"""Earlier releases wrote neither generation nor epoch."""


@dataclass(frozen=True, order=True)
class NotificationName:
    """The name of a notification. Names of one target sort in the order of the decisions that they report."""

    target: int
    seq: int
    """The number of steps at the time of the decision."""
    generation: str
    """The generation of the logs."""
    epoch: int
    """The fence of the decision: a task that waits twice at the same position has two notifications."""
    content: str
    """The status, and a digest of the reason."""

    @property
    def position(self) -> tuple[int, int]:
        """Return the target and the position."""
        return self.target, self.seq

    def repeats(self, later: "NotificationName") -> bool:
        """Return True if both report the same at one position, in different generations."""
        same = (self.position, self.content) == (later.position, later.content)
        return same and self.generation != later.generation

    def __str__(self) -> str:
        return f"{self.target}-{self.seq:08d}-{self.generation}-{self.epoch:012x}-{self.content}"

    @classmethod
    def of_decision(
        cls, target: int, seq: int, fence: tuple[str, int], status: TaskStatus, reason: str
    ) -> "NotificationName":
        """Return the name of the notification of the decision at this generation and epoch."""
        return cls(target, seq, *fence, f"{status}-{sha256(reason)[:8]}")

    @classmethod
    def is_valid(cls, name: str) -> bool:
        """Return True if this is a valid name of a notification."""
        return _NAME_PATTERN.fullmatch(name) is not None

    @classmethod
    def parse(cls, name: str) -> "NotificationName":
        """Return the parts of a name.

        Raise UsageError if it is not valid.
        """
        found = _NAME_PATTERN.fullmatch(name)
        if found is None:
            raise NotFound(f"there is no notification {name!r}: a name is TARGET-SEQ-GENERATION-EPOCH-STATUS-DIGEST")
        target, seq, generation, epoch, about = found.groups()
        return cls(int(target), int(seq), generation or "", int(epoch or "0", 16), about)


def notification_id_of(task_id: str, name: str) -> str:
    """Return the id of a notification. It is derived, so that it is the same in every delivery."""
    return f"msg_{sha256(f'{task_id}/{name}')[:32]}"


_TARGETS: TypeAdapter[list[NotifyTarget]] = TypeAdapter(list[NotifyTarget])


def targets_to_json(targets: list[NotifyTarget]) -> bytes:
    """Return the content of the file that stores the targets. Equal targets have equal bytes."""
    return canonical_json([target.model_dump(mode="json", exclude_defaults=True) for target in targets]).encode()


def targets_from_json(data: bytes) -> list[NotifyTarget]:
    """Return the targets that such a file stores, without fields that a later release has added."""
    return _TARGETS.validate_json(data, extra="ignore")
