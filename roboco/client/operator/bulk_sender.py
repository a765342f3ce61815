"""TaskSender: sends the control of a bulk control to one task, and reports the outcome.

task ─► item id of (bulk id, task id) ─► accepted before? ─► admitted? ─► control ─► outcome
                                          yes: the control alone           errors: the outcome names them
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from roboco.client.operator.bulk_control import BulkControl, ControlName
from roboco.client.operator.bulk_report import BulkOutcome
from roboco.client.task_control import TaskControl
from roboco.domain.canonical_json import sha256
from roboco.engine.engine import Engine
from roboco.engine.intake.accept_item import stored_item
from roboco.errors import AlreadyEnded, RobocoError

STOP_REASON: Final = "stopped by an operator"
"""The reason of a stop that names none."""
MAX_CAUSE_CHARS: Final = 500
"""Characters of a cause at most."""
FindTask = Callable[[str], TaskControl]


class TaskSender:
    """Sends a control to tasks, in several threads at a time."""

    def __init__(self, engine: Engine, find: FindTask, control: BulkControl) -> None:
        self._engine = engine
        self._find = find
        self._control = control
        self.admit: Callable[[str], None] = lambda _: None
        """Called with the id of each task before it gets its item. It raises RobocoError if the task may not get it."""

    def send(self, bulk_id: str, task_id: str) -> BulkOutcome:
        """Send the control to the task, and return the outcome."""
        item_id = bulk_item_id(bulk_id, task_id)
        try:
            task = self._find(task_id)
            repeated = stored_item(self._engine, task_id, item_id) is not None
            if not repeated:
                self.admit(task_id)
            _ITEMS[self._control.name](self._control, task, item_id)
        except AlreadyEnded:
            return BulkOutcome(task_id=task_id, item_id=item_id, outcome="ended")
        except (RobocoError, ValueError) as error:
            code = error.code if isinstance(error, RobocoError) else "error"
            cause = str(error)[:MAX_CAUSE_CHARS]
            return BulkOutcome(task_id=task_id, item_id=item_id, outcome="failed", code=code, cause=cause)
        return BulkOutcome(task_id=task_id, item_id=item_id, outcome="repeated" if repeated else "accepted")


def bulk_item_id(bulk_id: str, task_id: str) -> str:
    """Return the id of the item that a bulk control sends to a task."""
    return f"b_{sha256(f'{bulk_id}/{task_id}')[:32]}"


def _set_limits(control: BulkControl, task: TaskControl, item_id: str) -> None:
    task.set_limits(item_id, by=control.by, **_overrides(control))


def _overrides(control: BulkControl) -> Any:
    return {} if control.limits is None else control.limits.overrides()


_ITEMS: Final[Mapping[ControlName, Callable[[BulkControl, TaskControl, str], object]]] = MappingProxyType(
    {
        "stop": lambda control, task, item_id: task.stop(control.reason or STOP_REASON, item_id, by=control.by),
        "interrupt": lambda control, task, item_id: task.interrupt(item_id=item_id, by=control.by),
        "pause": lambda control, task, item_id: task.pause(item_id, by=control.by),
        "step": lambda control, task, item_id: task.step(item_id, by=control.by),
        "resume": lambda control, task, item_id: task.resume(item_id, by=control.by),
        "limits": _set_limits,
        "retry": lambda control, task, item_id: task.retry(
            control.reason or "", item_id, by=control.by, **_overrides(control)
        ),
    }
)
"""The controls that are one item of a task, whose id is that of the bulk control for this task."""
