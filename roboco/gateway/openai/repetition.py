"""repetition: whether a request repeats an earlier one, whose answer was lost.

OpenAI's packages repeat a request up to twice, without an idempotency key, but with the number of the attempt in
`x-stainless-retry-count`. The id of a task contains a digest of its request and its caller. So a repeated request
finds the task of the first attempt in the task index, and follows it. Identical requests that are no repetitions are
different tasks. `Idempotency-Key` makes this exact, for clients of any kind.

Limits: the index is read up to 2,000 tasks that have changed in the time in which the first attempt can have been made.
If the first attempt was refused, and the caller sent an identical request in that time, its answer is that of this one.
"""

import re
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Final

from fastapi import Request

from roboco.client.orchestrator import Orchestrator
from roboco.domain.canonical_json import canonical_json, sha256
from roboco.domain.status import TaskStatus
from roboco.gateway.openai.ids import shown_task_id
from roboco.gateway.openai.problems import wrong_parameter
from roboco.gateway.principal import Principal

_KEY: Final = re.compile(r"[\x21-\x7e]{1,255}")
_MAX_TASKS: Final = 2000
"""Tasks of the index that are read to find that of an earlier attempt."""
_HEADERS_SECONDS: Final = 120.0
"""The age of a first attempt whose answer begins at once. It was lost before its first byte."""
_DEFAULT_TIMEOUT: Final = 600.0
"""Seconds for which OpenAI's packages wait for an answer, unless they name another time."""
_MAX_TIMEOUT: Final = 3600.0
_SLACK_SECONDS: Final = 60.0
"""Seconds between two attempts, and the difference of clocks."""
_MAX_ATTEMPTS: Final = 10
"""The most earlier attempts of a request that count."""


@dataclass(frozen=True)
class Repetition:
    """The identity of a request."""

    caller: Principal
    digest: str = ""
    """The digest of the caller, the route and the body."""
    key: str | None = None
    """The idempotency key, or None."""
    attempts: int = 0
    """The number of earlier attempts, as the client states it."""
    timeout: float = 0.0
    """Seconds for which the client has waited for the answer of an attempt."""

    @property
    def may_repeat(self) -> bool:
        """True if the request may repeat an earlier one: it says so, or has a key."""
        return self.attempts > 0 or self.key is not None

    def since(self, immediate: bool) -> datetime:
        """Return the earliest time of the first attempt.

        `immediate` says that the answer begins as soon as the request is accepted. Each attempt may last until the
        client's time-out.
        """
        seconds = (_HEADERS_SECONDS if immediate else self.timeout) + _SLACK_SECONDS
        return datetime.now(UTC) - timedelta(seconds=seconds * max(1, min(self.attempts, _MAX_ATTEMPTS)))

    def new_task_id(self, scope: str = "") -> str:
        """Return the id of a new task. With a key, the same request has the same id; `scope` is part of the key."""
        if self.key is not None:
            return f"oak_{self._keyed(scope)}"
        return f"{self._prefix}{uuid.uuid4().hex[:12]}"

    def item_id(self, task_id: str, position: int) -> str:
        """Return the id of the message of this request, that becomes the step at a position of the task."""
        keyed = self._keyed(task_id) if self.key is not None else sha256(f"{self.digest}/{task_id}/{position}")[:32]
        return f"oa-{keyed}"

    def find_task(self, orchestrator: Orchestrator, immediate: bool) -> str | None:
        """Return the task of an earlier attempt at this request, or None if it is new or has a key.

        For `immediate`, see `since`. A task that was cancelled does not count.
        """
        if self.key is not None or not self.attempts:
            return None
        since = self.since(immediate)
        for entry in islice(orchestrator.tasks(since=since, tenant=self.caller.tenant), _MAX_TASKS):
            shown = shown_task_id(self.caller, entry.task_id)
            recent = entry.created_at >= since and entry.status is not TaskStatus.CANCELLED
            if recent and shown.startswith(self._prefix):
                return shown
        return None

    @property
    def _prefix(self) -> str:
        return f"oa_{self.digest[:24]}_"

    def _keyed(self, scope: str) -> str:
        return sha256(canonical_json([self.caller.tenant, self.key, scope]))[:32]


async def repetition_of(request: Request, caller: Principal) -> Repetition:
    """Return the identity of a request. Raise Problem if its idempotency key is wrong."""
    key = request.headers.get("idempotency-key")
    if key is not None and _KEY.fullmatch(key) is None:
        raise wrong_parameter("Idempotency-Key", "must be 1 to 255 visible ASCII characters")
    body = sha256((await request.body()).decode("utf-8", "replace"))
    timeout = min(_number(request, "x-stainless-read-timeout", _DEFAULT_TIMEOUT), _MAX_TIMEOUT)
    return Repetition(
        caller=caller,
        digest=sha256(canonical_json([caller.tenant, caller.by, request.url.path, body])),
        key=key,
        attempts=int(_number(request, "x-stainless-retry-count", 0)),
        timeout=timeout,
    )


def _number(request: Request, header: str, default: float) -> float:
    text = request.headers.get(header, "")
    return float(text) if re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", text) else default
