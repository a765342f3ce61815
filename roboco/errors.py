"""The errors of Roboco, split by the party that must act.

    RobocoError
    ├── UsageError        the caller: nothing was stored, correct the call and send it again
    │   ├── TeamError     the author of a team file: carries every mistake in it
    │   ├── NotRunnable   the operator: this worker lacks the module of a tool; another worker may have it
    │   └── Overloaded    the caller, later: too many tasks are queued already
    ├── TransientError    the machine: the same call may succeed later
    │   ├── ModelError    the model's provider: carries a code, and whether a retry can help
    │   └── Later         the machine, not before a time: carries the delay that a server demands, in seconds
    ├── TeamFailed        the caller that waits for a team: its task did not succeed
    ├── CorruptHistory    an operator: a stored history breaks its own rules
    └── Conflict          no action needed: another worker has this already

Facts are positional arguments, so that an error survives pickling on its way through Celery.
"""


class RobocoError(Exception):
    """The root of every error that Roboco raises itself."""


class UsageError(RobocoError):
    """The call was wrong and nothing was stored. The message lists the possible values."""


class TeamError(UsageError):
    """A team file has mistakes: `source` is the name of the file, `mistakes` lists all of them, one line each."""

    def __init__(self, source: str, mistakes: tuple[str, ...]) -> None:
        super().__init__(source, mistakes)
        self.source = source
        self.mistakes = mistakes

    def __str__(self) -> str:
        return "\n".join(f"{self.source}: {mistake}" for mistake in self.mistakes)


class NotRunnable(UsageError):
    """This process cannot run a tool, since it lacks the function. `module` is the module that must be installed."""

    def __init__(self, message: str, module: str) -> None:
        super().__init__(message, module)
        self.message = message
        self.module = module

    def __str__(self) -> str:
        return self.message


class Overloaded(UsageError):
    """Too many tasks are queued to accept a new one. The same submission may be accepted later."""


class TransientError(RobocoError):
    """A server failed to respond correctly. The same call may succeed later."""


class ModelError(TransientError):
    """A model call failed.

    `retryable` is True if the same request may succeed later. `retry_after` is the delay in seconds that the provider
    requested, or None.
    """

    def __init__(self, code: str, message: str, retryable: bool, retry_after: float | None = None) -> None:
        super().__init__(code, message, retryable, retry_after)
        self.code = code
        self.message = message
        self.retryable = retryable
        self.retry_after = retry_after

    def __str__(self) -> str:
        return self.message


class Later(TransientError):
    """A server refuses the call for now. `seconds` is the delay that it demands."""

    def __init__(self, message: str, seconds: float) -> None:
        super().__init__(message, seconds)
        self.message = message
        self.seconds = seconds

    def __str__(self) -> str:
        return self.message


class CorruptHistory(RobocoError):
    """A stored history breaks its own rules. An operator must act before anything is written."""


class Conflict(RobocoError):
    """Another worker has this already. The loser drops its work."""


class TeamFailed(RobocoError):
    """The task of a team did not succeed.

    It carries the task's id, the `status` in which it ended or waits, the reason, and the remedy.
    `TaskResult.raise_for_status` raises it, and the Celery task of a team in a canvas fails with it.
    """

    def __init__(self, task_id: str, status: str, reason: str, remedy: str = "") -> None:
        super().__init__(task_id, status, reason, remedy)
        self.task_id = task_id
        self.status = status
        self.reason = reason
        self.remedy = remedy

    def __str__(self) -> str:
        remedy = f"; {self.remedy} (roboco why {self.task_id})" if self.remedy else ""
        return f"task {self.task_id} is {self.status}: {self.reason or 'without a reason'}{remedy}"
