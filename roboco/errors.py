"""The errors of Roboco, split by who must act. Each has a `code` for programs.

    RobocoError           error
    ├── UsageError        invalid          the caller: nothing was stored; correct the call and send it again
    │   ├── NotFound      not_found        the caller: there is no such task, item, call, file, team or letter
    │   ├── AlreadyEnded  ended            the caller: the task has ended; submit a new one, or fork it
    │   ├── StateConflict conflict         the caller: other content is stored already, or the state excludes the call
    │   ├── Erased        erased           the caller: the task was erased; choose another id
    │   ├── Forbidden     forbidden        the caller: it belongs to another tenant or the operator, or is not allowed
    │   ├── InvalidTeam   invalid_team     the author of a team file: the error lists every mistake in it
    │   └── NotRunnable   not_runnable     the operator: this worker lacks the module of a tool
    ├── TransientError    unavailable      the machine: the same call may succeed later
    │   ├── Overloaded    overloaded       the caller, later: too many turns wait already, and nothing was stored
    │   ├── ModelError    the provider's   the model's provider: `retryable` says whether another attempt can help
    │   └── RetryLater    retry_later      the machine, not before a time that the server has named
    ├── TaskFailed        task_failed      the caller that waits for a task: the task did not complete
    ├── CorruptHistory    corrupt_history  an operator: a stored history breaks its own rules
    └── Conflict          replaced         the worker that loses: another worker processes this already

Facts are positional arguments, so that an error survives pickling on its way through Celery.
"""


class RobocoError(Exception):
    """The root of every error that Roboco raises itself."""

    code: str = "error"
    """The kind of the error, for programs: `roboco --json` prints it."""


class UsageError(RobocoError):
    """The call was wrong and nothing was stored. The message names the possible values."""

    code = "invalid"


class NotFound(UsageError):
    """The call names a task, item, tool call, file, team or dead letter that does not exist."""

    code = "not_found"


class AlreadyEnded(UsageError):
    """The task has ended and takes no more items."""

    code = "ended"


class StateConflict(UsageError):
    """The call contradicts the stored state: other content, another answer or another decision was accepted before.

    A call is also refused with this error while the task is too busy for it.
    """

    code = "conflict"


class Erased(UsageError):
    """The task was erased, or is being erased. Its id cannot be used again."""

    code = "erased"


class Forbidden(UsageError):
    """The caller may not do this: it is another tenant's or the operator's, or the operator has not allowed it."""

    code = "forbidden"


class InvalidTeam(UsageError):
    """A team file has mistakes: `source` is the name of the file, `mistakes` lists all of them, one line each."""

    code = "invalid_team"

    def __init__(self, source: str, mistakes: tuple[str, ...]) -> None:
        super().__init__(source, mistakes)
        self.source = source
        self.mistakes = mistakes

    def __str__(self) -> str:
        return "\n".join(f"{self.source}: {mistake}" for mistake in self.mistakes)


class NotRunnable(UsageError):
    """This process cannot run a tool, since it lacks the function. `module` is the module to install."""

    code = "not_runnable"

    def __init__(self, message: str, module: str) -> None:
        super().__init__(message, module)
        self.message = message
        self.module = module

    def __str__(self) -> str:
        return self.message

    def remedy(self, pool: str) -> str:
        """Return the message with what an operator of the pool's workers can do."""
        return (
            f"{self.message}; install {self.module!r} where the {pool} workers run, and name it in ROBOCO_TOOL_MODULES"
        )


class TransientError(RobocoError):
    """A server failed to respond correctly. The same call may succeed later."""

    code = "unavailable"


class Overloaded(TransientError):
    """Too many turns wait already (ROBOCO_MAX_QUEUED), or Redis is nearly full.

    Nothing was stored; the same submission may succeed later.
    """

    code = "overloaded"


class ModelError(TransientError):
    """A model call failed.

    `code` is that of the failure, such as "rate_limit". `retryable` is True for an outage: the server cannot be
    reached, is overloaded or at its rate limit, and the same call may succeed later. `retry_after` is the number of
    seconds that the provider has named, or None. `tokens_in` and `tokens_out` are the tokens of requests that the
    provider has received: as reported, or estimated.
    """

    def __init__(
        self,
        code: str,
        message: str,
        retryable: bool,
        retry_after: float | None = None,
        tokens_in: int = 0,
        tokens_out: int = 0,
    ) -> None:
        super().__init__(code, message, retryable, retry_after, tokens_in, tokens_out)
        self.code = code
        self.message = message
        self.retryable = retryable
        self.retry_after = retry_after
        self.tokens_in = tokens_in
        self.tokens_out = tokens_out

    def __str__(self) -> str:
        return self.message


class RetryLater(TransientError):
    """A server refuses the call now, and asks for the next attempt in `seconds`."""

    code = "retry_later"

    def __init__(self, message: str, seconds: float) -> None:
        super().__init__(message, seconds)
        self.message = message
        self.seconds = seconds

    def __str__(self) -> str:
        return self.message


class CorruptHistory(RobocoError):
    """A stored history breaks its own rules; an operator must repair it before anything is written."""

    code = "corrupt_history"


class Conflict(RobocoError):
    """Another worker processes this already; the worker that loses drops its work."""

    code = "replaced"


class TaskFailed(RobocoError):
    """A task did not complete.

    It carries the task's id, the `status` in which it ended or waits, the reason, and the remedy.
    `TaskResult.raise_for_status` raises it, and the Celery task of a team in a canvas fails with it.
    """

    code = "task_failed"

    def __init__(self, task_id: str, status: str, reason: str, remedy: str = "") -> None:
        super().__init__(task_id, status, reason, remedy)
        self.task_id = task_id
        self.status = status
        self.reason = reason
        self.remedy = remedy

    def __str__(self) -> str:
        remedy = f"; {self.remedy} (roboco why {self.task_id})" if self.remedy else ""
        return f"task {self.task_id} is {self.status}: {self.reason or 'without a reason'}{remedy}"
