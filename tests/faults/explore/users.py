"""The actions of users, and the answer to each of them."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, repeat
from typing import Literal

from roboco.client.operator.bulk import MAX_RATE, create_bulk
from roboco.client.operator.bulk_control import ControlName
from roboco.client.options import BulkOptions
from roboco.domain.decision.tool_answers import is_client_call, needs_approval
from roboco.domain.history.lineage import Retry
from roboco.domain.history.part import ToolCall, successful_outcome
from roboco.domain.ids import answer_id, approval_id
from roboco.domain.inbox.item import Stop, UserMessage
from roboco.domain.inbox.submission import Submission
from roboco.domain.limits import LimitOverrides
from roboco.domain.removal.erasure import ErasureRequest
from roboco.engine.accept import answer, control
from roboco.engine.accept import control as message
from roboco.engine.accept.accept_item import IdLookup, accept_item
from roboco.engine.accept.control import set_limits
from roboco.engine.accept.fork import ForkRequest, fork, retry_task
from roboco.engine.accept.request_erasure import request_erasure
from roboco.engine.coordinate.submit import submit
from roboco.engine.engine import Engine
from roboco.engine.record.task_tar import check_exportable, task_tar
from roboco.engine.workspace_records import FrozenTeams
from roboco.errors import TransientError, UsageError
from roboco.ports.snapshot import Phase
from roboco.settings import Settings
from tests.faults.explore.shapes import TASK, Shape
from tests.support.memory_ports.world import World

MAX_REQUESTS = 3
"""Maximal number of times a client sends the same request while no server answers."""
BULK_CONTROLS: dict[str, tuple[ControlName, BulkOptions]] = {
    "raise": ("limits", {"limits": {"max_steps": 30}}),
    "stop": ("stop", {}),
    "pause": ("pause", {}),
    "send": ("send", {"message": "all", "status": ["open"]}),
}
"""The controls that are sent to all tasks, with their options, by the kind of the same action for one task."""


@dataclass
class UserAction:
    """A user's action with its answer, which is unknown if the client died or no server answered.

    `late`: the task's end was recorded before the action. `steps`: the length of the history at the answer.
    """

    kind: str
    task_id: str
    item_id: str = ""
    late: bool = False
    steps: int = 0
    answer: Literal["unknown", "accepted", "refused"] = "unknown"


UserRequest = Callable[[Engine], object]


@dataclass
class Users:
    """All users of a deployment, and their actions in order."""

    world: World
    shape: Shape
    actions: list[UserAction] = field(default_factory=list)
    exports: dict[str, bytes] = field(default_factory=dict)
    """The newest tar of each exported task."""

    def act(self, kind: str, choice: int) -> tuple[UserAction, UserRequest] | None:
        """Return an action of this kind, or None if the task does not allow it now."""
        task_id = self._target(choice)
        if kind == "submit":
            return self._new(UserAction(kind, TASK), self._submit)
        if kind in ("approve", "deny", "answer"):
            return self._on_call(kind, task_id, choice)
        item_id = f"{kind}{len(self.actions)}"
        if kind == "bulk":
            return self._new(UserAction(kind, TASK), partial(self._control_all, list(BULK_CONTROLS)[choice % 4]))
        if kind == "export":
            return self._new(UserAction(kind, task_id), partial(self._export, task_id))
        if kind == "fork":
            fork_id = f"acme:{item_id}"
            return self._new(UserAction(kind, fork_id), lambda engine: fork(engine, ForkRequest(task_id, fork_id)))
        deed = UserAction(kind, task_id, item_id, self._has_ended(task_id))
        if kind == "erase":
            request = ErasureRequest(task_id=task_id, requested_at=self.world.engine.now(), stop=choice % 2 == 1)
            return self._new(deed, lambda engine: request_erasure(engine, request))
        return self._new(deed, self._request(kind, task_id, item_id))

    def stop(self, task_id: str) -> tuple[UserAction, UserRequest]:
        """Return the action that stops the task."""
        deed = UserAction("stop", task_id, f"stop{len(self.actions)}")
        return self._new(deed, self._request("stop", task_id, deed.item_id))

    def perform(self, engine: Engine, deed: UserAction, request: UserRequest) -> None:
        """Make the request, repeat it while no server answers, and keep the answer."""
        for _ in range(MAX_REQUESTS):
            try:
                request(engine)
            except TransientError:
                continue
            except UsageError:
                deed.answer = "refused"
                return
            deed.answer = "accepted"
            deed.steps = len(self.world.histories.held.get(deed.task_id, ()))
            return

    def tasks(self) -> list[str]:
        """Return the ids of all tasks that the workspace holds."""
        return sorted({path.partition("/")[0] for path in self.world.files.held if path.endswith("/task.json")})

    def _new(self, deed: UserAction, request: UserRequest) -> tuple[UserAction, UserRequest]:
        self.actions.append(deed)
        return deed, request

    def _target(self, choice: int) -> str:
        others = [task_id for task_id in self.tasks() if task_id != TASK]
        return others[choice % len(others)] if choice >= 5 and others else TASK

    def _has_ended(self, task_id: str) -> bool:
        task = self.world.server.held.tasks.get(task_id)
        if task is not None:
            return task.phase is Phase.END
        return task_id in self.tasks() and self.world.summary(task_id).status.ended

    def _submit(self, engine: Engine) -> None:
        team = self.shape.team
        submission = Submission(task_id=TASK, team=team.name, prompt="go", **self.shape.options)
        submit(engine, submission, team)

    def _control_all(self, kind: str, engine: Engine) -> None:
        """Send a control to all tasks. A repetition has the same id: another gateway may run it at the same time."""
        name, options = BULK_CONTROLS[kind]
        given = options | BulkOptions(all_tasks=True, rate=MAX_RATE, bulk_id=f"bulk-{kind}")
        bulk = create_bulk(engine, engine.workspace.summaries.require, name, Settings(), given)
        for page in bulk.pages(limit=1):  # the tasks of a page get their items in several threads
            for one in page.outcomes:
                if one.outcome == "accepted":
                    steps = len(self.world.histories.held.get(one.task_id, ()))
                    self.actions.append(UserAction(kind, one.task_id, one.item_id, steps=steps, answer="accepted"))

    def _export(self, task_id: str, engine: Engine) -> None:
        check_exportable(engine, task_id)
        self.exports[task_id] = b"".join(task_tar(engine.workspace, task_id))

    def _request(self, kind: str, task_id: str, item_id: str) -> UserRequest:
        at = self.world.engine.now()
        text = UserMessage(item_id=item_id, created_at=at, text=item_id)
        lookups = chain[IdLookup](["new id"], repeat("needed"))  # a client draws an id for its first attempt only
        stop = Stop(item_id=item_id, created_at=at)
        requests: dict[str, UserRequest] = {
            "send": lambda engine: message.accept_message(engine, task_id, text, None, next(lookups)),
            "interrupt": lambda engine: message.accept_message(engine, task_id, text, "interrupt", next(lookups)),
            "halt": lambda engine: message.accept_interrupt(engine, task_id, item_id, lookup=next(lookups)),
            "stop": lambda engine: accept_item(engine, task_id, stop, lookup=next(lookups)),
            "pause": lambda engine: control.pause(engine, task_id, item_id),
            "step": lambda engine: control.step(engine, task_id, item_id),
            "resume": lambda engine: control.resume(engine, task_id, item_id),
            "retry": lambda engine: retry_task(engine, task_id, Retry(limits={"max_steps": 30})),
            "off": lambda engine: engine.process.switches.switch_off("queue:agents", "maintenance", False, None, at),
            "on": lambda engine: engine.process.switches.switch_on("queue:agents"),
            "raise": lambda engine: set_limits(engine, task_id, LimitOverrides(max_steps=30), item_id),
        }
        return requests[kind]

    def _on_call(self, kind: str, task_id: str, choice: int) -> tuple[UserAction, UserRequest] | None:
        calls = [call for call in self._open_calls(task_id) if is_client_call(call) is (kind == "answer")]
        if not calls:
            return None
        call = calls[choice % len(calls)]
        if kind == "answer":
            deed = UserAction(kind, task_id, answer_id(call.id), self._has_ended(task_id))
            return self._new(deed, lambda engine: answer.answer(engine, task_id, successful_outcome(call, "seven")))
        deed = UserAction(kind, task_id, approval_id(call.id), self._has_ended(task_id))
        return self._new(
            deed,
            lambda engine: answer.decide_approval(engine, task_id, call.id, answer.CallApproval(kind == "approve")),
        )

    def _open_calls(self, task_id: str) -> list[ToolCall]:
        history = self.world.histories.held.get(task_id)
        if not history:
            return []
        team = FrozenTeams(self.world.files).get(task_id)
        last = self.world.history(task_id)[-1]
        return [call for call in last.calls if is_client_call(call) or needs_approval(team, call)]
