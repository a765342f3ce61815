"""A shop in memory: a test, or a run of the explorer, runs the Celery tasks that were sent to it."""

from roboco.domain.team.tool_spec import TaskTool
from roboco.engine.coordinate.shop_task import TaskAnswer
from roboco.errors import Forbidden, TransientError
from roboco.ports.shop import Shop, ShopTask


class MemoryShop(Shop):
    """The queue of a shop. `sent` holds all Celery tasks in order, `queue` those that no worker has taken.

    `refused` is why the operator allows no Celery task. While `is_away` the broker does not answer.
    """

    def __init__(self) -> None:
        self.sent: list[ShopTask] = []
        self.queue: list[ShopTask] = []
        self.revoked: list[tuple[str, bool]] = []
        self.refused = ""
        self.is_away = False

    def check(self, tool: TaskTool) -> None:
        if self.refused:
            raise Forbidden(self.refused)
        if self.is_away:
            raise TransientError("the shop's broker does not answer")

    def send(self, task: ShopTask) -> None:
        if not any(one is task for one in self.sent):
            self.sent.append(task)
        self.queue.append(task)

    def revoke(self, message_id: str, terminate: bool) -> None:
        self.revoked.append((message_id, terminate))
        self.queue = [task for task in self.queue if task.message_id != message_id]

    def take(self) -> list[TaskAnswer]:
        """Run all queued Celery tasks as workers of the shop do. Return their answers."""
        taken, self.queue = self.queue, []
        return [answer_of(task) for task in taken]


def answer_of(task: ShopTask) -> TaskAnswer:
    """Return the answer of a Celery task whose result is the names of its arguments."""
    failed = bool(task.args.get("fails"))
    return TaskAnswer(task.task_id, task.call_id, task.secret, failed, None if failed else sorted(task.args))
