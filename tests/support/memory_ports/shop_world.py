"""A world with a shop, whose Celery tasks are tools."""

from typing import Any

from roboco.domain.history.part import ToolResult
from roboco.engine.coordinate.shop_task import TaskAnswer, accept_task_answer
from roboco.errors import TransientError, UsageError
from tests.support.memory_ports.journeys import member, own_turns
from tests.support.memory_ports.model import says
from tests.support.memory_ports.watch import Crash
from tests.support.memory_ports.world import TASK, World, team_of, world_parts

PARSE = {
    "name": "parse",
    "task": "docs.parse",
    "queue": "parsing",
    "description": "Parse a document.",
    "parameters": {"type": "object", "properties": {"file": {"type": "string"}}, "required": ["file"]},
    "timeout": 60,
}


class ShopWorld(World):
    """A world with a shop, whose worker runs the Celery tasks, and whose answers are delivered until they are taken."""

    def __init__(self, args: tuple[dict[str, Any], ...] = ({"file": "a.pdf"},), **tool: Any) -> None:
        def script(request: Any) -> Any:
            asked = [("parse", one) for one in args]
            return says("done") if own_turns(request) else says("parsing", *asked, ("add", {}))

        super().__init__(world_parts(script, {"add": lambda args, context: 3}))
        self.answers: list[TaskAnswer] = []
        self.refusals: list[str] = []
        self.team = team_of(
            agents=[member("clerk", tools=["parse", "add"])],
            tools=[PARSE | tool, {"name": "add", "function": "shop.sums:add", "effect": "pure"}],
        )

    def begin(self) -> "ShopWorld":
        """Submit the task, and deliver messages until it waits for the shop."""
        self.submit(self.team)
        self.drain()
        return self

    def run(self, works: bool = True) -> "ShopWorld":
        """Run the task to its end, or until it waits for a person. The shop's worker `works`, or takes nothing."""
        for _ in range(100):
            self.drain()
            self.answers += self.shop.take() if works else []
            self.deliver_answers()
            self.drain()
            if self.is_settled():
                return self
            self.clock.move(max(0.0, self.server.held.schedule.get(TASK, 0.0) - self.clock.now()))
            self.sweep()
        raise AssertionError(f"never settles: {self.failures[:3]} {self.server.held.tasks.get(TASK)}")

    def deliver_answers(self) -> None:
        """Deliver the answers. One whose worker dies or whose server does not answer is delivered again."""
        waiting, self.answers = self.answers, []
        for one in waiting:
            try:
                accept_task_answer(self.engine, one)
            except UsageError as error:
                self.refusals.append(str(error))
            except (TransientError, Crash):
                self.answers.append(one)

    def results(self) -> list[ToolResult]:
        """Return the results of the Celery tasks."""
        return list(self.history()[2].results)[:-1]

    @property
    def reason(self) -> str:
        """The reason of the task's status in Redis."""
        return self.server.held.tasks[TASK].reason
