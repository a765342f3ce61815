"""The errors of Roboco, split by who must act.

    RobocoError
    ├── UsageError        the caller: nothing was stored, mend the call and send it again
    │   ├── TeamError     the author of a team file: carries every mistake in it
    │   ├── NotRunnable   the operator: this worker lacks the module of a tool; another worker may have it
    │   └── Overloaded    the caller, later: too much waits already
    ├── TransientError    the machine: the same call may succeed later
    │   ├── ModelError    the model's provider: carries a code, and whether trying again can help
    │   └── Later         the machine, not before a time: carries in how many seconds a server wants to be asked again
    ├── TeamFailed        the caller who waits for a team: its task did not come to a good end
    ├── CorruptHistory    an operator: a stored history breaks its own rules
    └── Conflict          nobody: another worker has this already

Facts are positional arguments, so that an error survives pickling on its way through Celery.
"""


class RobocoError(Exception):
    """The root of every error that Roboco raises itself."""


class UsageError(RobocoError):
    """The call was wrong and nothing was stored; the message says what is possible."""


class TeamError(UsageError):
    """A team file has mistakes: `source` names the file, `mistakes` lists all of them, one line each."""

    def __init__(self, source: str, mistakes: tuple[str, ...]) -> None:
        super().__init__(source, mistakes)
        self.source = source
        self.mistakes = mistakes

    def __str__(self) -> str:
        return "\n".join(f"{self.source}: {mistake}" for mistake in self.mistakes)


class NotRunnable(UsageError):
    """This process cannot run a tool, since it lacks the function. `module` is the module that has to be installed."""

    def __init__(self, message: str, module: str) -> None:
        super().__init__(message, module)
        self.message = message
        self.module = module

    def __str__(self) -> str:
        return self.message


class Overloaded(UsageError):
    """So much waits already that no new task is taken; the same submission may be taken later."""


class TransientError(RobocoError):
    """A server did not answer as it should; the same call may succeed later."""


class ModelError(TransientError):
    """A model call failed; `retryable` says whether the same request may succeed later.

    `retry_after` is in how many seconds, where the provider said so.
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
    """A server does not take the call now, and wants to be asked again in so many `seconds`."""

    def __init__(self, message: str, seconds: float) -> None:
        super().__init__(message, seconds)
        self.message = message
        self.seconds = seconds

    def __str__(self) -> str:
        return self.message


class CorruptHistory(RobocoError):
    """A stored history breaks its own rules; an operator must look before anything is written."""


class Conflict(RobocoError):
    """Another worker has this already; the loser drops its work."""


class TeamFailed(RobocoError):
    """A team did not come to a good end: the task, the `status` in which it ended or waits, the reason, the remedy.

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
