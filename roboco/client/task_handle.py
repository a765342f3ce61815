"""TaskHandle: the id of a task, and the engine and settings through which a client reaches it."""

from roboco.engine.engine import Engine
from roboco.settings import Settings


class TaskHandle:
    """A task by its id. Creating a handle reads nothing: the task may not exist."""

    task_id: str
    """The id of the task; that of a tenant's task is TENANT:ID."""

    created: bool = False
    """True if the `run`, `fork` or `retry` that returned this task has created it, and was no repetition."""

    def __init__(self, task_id: str, engine: Engine, settings: Settings) -> None:
        self.task_id = task_id
        self._engine = engine
        self._settings = settings
