"""The invariants that hold once the deployment is quiet."""

import json
from collections import Counter
from collections.abc import Callable
from functools import cached_property, partial
from itertools import pairwise
from typing import Any

from roboco.client.receipt import find_receipt
from roboco.domain.history.step import GUARDS, REFUSED, USER, TaskStep, verify_chain
from roboco.domain.inbox.item import Interrupt, Item, parse_item
from roboco.domain.notification import NotificationName, targets_from_json
from roboco.domain.paths import (
    TOMBSTONES,
    applied_folder,
    events_path,
    inbox_path,
    notify_marker_path,
    notify_targets_path,
    open_marker_path,
    summary_path,
    tombstone_path,
)
from roboco.domain.removal.erasure import ErasureReceipt
from roboco.domain.status import TaskStatus
from roboco.domain.stream.event_file import to_stored
from roboco.domain.task_summary import TaskSummary
from roboco.domain.task_usage import TaskUsage
from roboco.domain.usage import day_of
from roboco.engine.accept.accept_item import stored_item
from roboco.engine.operate.rebuild_index import rebuild_index
from roboco.errors import CorruptHistory
from roboco.ports.snapshot import Phase
from tests.faults.explore.followers import TaskFollower
from tests.faults.explore.run import Run
from tests.faults.explore.shapes import TASK
from tests.faults.explore.users import UserAction
from tests.faults.explore.violation import Violation, require
from tests.support.memory_ports.server import StoredTask
from tests.support.memory_ports.world import World
from tests.support.unpacked_tar import unpacked

END = "event_task_end"
MAY_FOLLOW_THE_END = ("event_stream_reset", "event_error", "content_chunk")
"""Records that may follow the end of a task: of a worker that does not know of it yet, or of a new generation."""
NEEDS_LISTS = (
    "notified",
    "events.jsonl agrees",
    "events.jsonl has one end",
    "live follower",
    "late follower",
    "accepted item",  # of which Redis has lost its copy at the same time
)
"""Invariants that hold only if the store lists each file that it has stored, as deploy/README.md requires."""
REBUILD_SECONDS = 60.0
STEP_ACTIONS = ("send", "interrupt", "halt", "raise")
CONTINUING_ACTIONS = ("resume", "step")
ANSWERING_ACTIONS = ("approve", "deny", "answer")


def check(run: Run) -> list[Violation]:
    """Return the broken invariants of a quiet deployment."""
    world = run.world
    checks: list[Callable[[], None]] = [partial(_check_processes, run), partial(_check_payments, world)]
    checks += [
        partial(one, run)
        for one in (
            _check_repeated_turns,
            _check_budget,
            _check_erasures,
            _check_tars,
            _check_session,
            _check_remote_tasks,
        )
    ]
    for task in [CheckedTask(world, task_id) for task_id in run.users.tasks()]:
        checks += [partial(one, run, task) for one in _checks(run, task)]
    checks += [partial(_check_action, run, deed) for deed in run.users.actions if not is_erased(world, deed.task_id)]
    checks.append(partial(_check_index, run))
    checks.append(partial(_check_pauses, run))
    found = [broken for one in checks if (broken := _violation_of(one)) is not None]
    return [broken for broken in found if not run.lists_late or broken.invariant not in NEEDS_LISTS]


def _violation_of(one: Callable[[], None]) -> Violation | None:
    try:
        one()
    except Violation as broken:
        return broken
    return None


def _check_processes(run: Run) -> None:
    world = run.world
    removed = bool(run.files.removed)  # a late turn of a removed task finds no history, and fails
    errors = [error for error in run.errors if not (removed and isinstance(error, CorruptHistory))]
    require("exception", not errors, errors[:1])
    require("broker", not world.dispatcher.queue, world.dispatcher.queue)
    require("signals", not world.server.listeners, world.server.listeners)
    require("dead letters", not world.server.held.letters, world.server.held.letters)
    require("an end is final", not run.files.changed_ends, run.files.changed_ends[:1])
    require("forgotten", not _orphaned_keys(world), _orphaned_keys(world))


def _check_remote_tasks(run: Run) -> None:
    """Require one remote task for each message, and none that runs after its task, unless a step says that it may.

    A step may say so if the agent has refused the cancellation, or if its time has passed in one leap. An erased task
    has no step.
    """
    agent = run.remote_agent
    sent = Counter(agent.messages.values())
    require("one remote task a turn", all(count == 1 for count in sent.values()), sent)
    tasks = [CheckedTask(run.world, task_id) for task_id in run.users.tasks()]
    steps = [step for task in tasks if not task.open for step in task.history]
    errors = [step.error.code for step in steps if step.error is not None]
    left = [task_id for task_id, state in agent.states.items() if state == "WORKING"]
    named = [step.metadata["remote_task"] for step in steps if "remote_task" in step.metadata]
    unknown = sum(one["state"] == "unknown" for one in named) + errors.count("unknown_outcome")
    known = {one["id"] for one in named if one["state"] == "running" and ("error" in one or run.time_leaps)}
    unnamed = [task_id for task_id in left if task_id not in known]
    ended = not any(task.open for task in tasks) and not run.files.removed
    require("no remote task outlives its turn", not ended or len(unnamed) <= unknown, f"{unnamed} {named} {errors}")


def _check_index(run: Run) -> None:
    """Once its rebuild is complete, the task index holds each task with its status."""
    world = run.world
    rebuild_index(world.engine, REBUILD_SECONDS)
    listed = {task_id: entry.status for task_id, entry in world.server.held.entries.items()}
    tasks = [CheckedTask(world, task_id) for task_id in run.users.tasks()]
    expected = {task.task_id: world.status(task.task_id) for task in tasks if task.open}
    expected |= {task.task_id: task.summary.status for task in tasks if not task.open and task.summary.status.ended}
    require("index", listed == expected, f"listed {listed}, expected {expected}")


def _check_repeated_turns(run: Run) -> None:
    """Require that no process dispatches a turn whose step was stored before, unless Redis was behind the workspace."""
    require("finished turns", run.losses or not run.repeated_turns, run.repeated_turns)


def _check_session(run: Run) -> None:
    """Require that a client that polls deltas holds the conversation of `session`."""
    if TASK in run.users.tasks():
        difference = run.session.poll()
        require("session", not difference, difference)


def _check_budget(run: Run) -> None:
    """Require that the tenant has used on this day what the histories show.

    Redis may have lost the usage of tasks that have ended, and that of erased tasks is in no history.
    """
    world, day = run.world, day_of(run.world.engine.now())
    own, others = Counter[str](), Counter[str]()
    for task_id in run.users.tasks():
        usage = TaskUsage(task_id=task_id).after(world.histories.read(task_id))
        counts = own if CheckedTask(world, task_id).open else others
        for cell in usage.cells:
            counts.update(tokens=(cell.tokens_in + cell.tokens_out) * (cell.day == day))
    spent = world.engine.services.rate_limiter.spent("acme", day).tokens
    erased = any(path.startswith(TOMBSTONES) for path in world.files.held)
    lowest = own["tokens"] + (0 if run.losses else others["tokens"])
    require("budget", lowest <= spent, f"{spent} tokens, at least {lowest} are recorded")
    require("budget", erased or spent <= own["tokens"] + others["tokens"], f"{spent} tokens, {own} {others} recorded")


def _check_erasures(run: Run) -> None:
    """Require that each accepted erasure is complete, and that nothing of an erased task and its sub-tasks remains."""
    world = run.world
    for deed in run.users.actions:
        if deed.kind == "erase" and deed.answer == "accepted":
            require("accepted erasure", is_erased(world, deed.task_id), deed)
    held = world.server.held
    for task_id in [path.removeprefix(TOMBSTONES) for path in world.files.held if path.startswith(TOMBSTONES)]:
        receipt = ErasureReceipt.model_validate_json(world.files.held[tombstone_path(task_id)])
        require("accepted erasure", receipt.finished_at is not None, task_id)
        traces = [path for path in world.files.held if path.startswith((f"{task_id}/", f"{task_id}."))]
        traces += [
            path for path in (open_marker_path(task_id), notify_marker_path(task_id)) if path in world.files.held
        ]
        traces += [name for name in (task_id,) if name in world.histories.held or name in held.tasks]
        traces += [name for name in held.schedule if name == task_id or name.startswith(f"{task_id}.")]
        traces += [f"index {name}" for name in held.entries if name == task_id]
        require("nothing of an erased task remains", not traces, traces)


def _check_tars(run: Run) -> None:
    """Require that retention removes only ended tasks, and that each tar has the task as it was, or ended."""
    world = run.world
    for task_id, (summary, _) in run.files.removed.items():
        data = world.files.held.get(tombstone_path(task_id))
        receipt = None if data is None else ErasureReceipt.model_validate_json(data)
        if receipt is None or receipt.by != "retention":
            continue
        ended = summary is not None and TaskSummary.model_validate_json(summary).status.ended
        require("retention", ended, f"{task_id} had not ended")
    for task_id, tar in run.users.exports.items():
        lines = world.histories.held.get(task_id) or run.files.removed[task_id][1]
        kept = _exported(tar)
        require("export", kept == lines[: len(kept)], f"{task_id}: {len(kept)} of {len(lines)} steps")


def _exported(tar: bytes) -> list[bytes]:
    """Return the history in the tar, which must have all files of its manifest, and the summary of that history."""
    files = unpacked(tar)
    lines = files["history.jsonl"].splitlines()
    summary = TaskSummary.model_validate_json(files["task.json"])
    require("export", summary.status.ended and summary.steps == verify_chain(lines) == len(lines), summary)
    return lines


def is_erased(world: World, task_id: str) -> bool:
    """Return True if the task was erased."""
    return tombstone_path(task_id) in world.files.held


class CheckedTask:
    """The state of a task in the workspace and in Redis."""

    def __init__(self, world: World, task_id: str) -> None:
        self.world = world
        self.task_id = task_id

    @property
    def open(self) -> bool:
        """True if the marker of open tasks exists."""
        return open_marker_path(self.task_id) in self.world.files.held

    @cached_property
    def summary(self) -> TaskSummary:
        """The content of `task.json`."""
        return self.world.summary(self.task_id)

    @cached_property
    def history(self) -> list[TaskStep]:
        """The committed steps."""
        return self.world.history(self.task_id)

    @property
    def stored(self) -> StoredTask | None:
        """The state in Redis, or None."""
        return self.world.server.held.tasks.get(self.task_id)

    @cached_property
    def stored_events(self) -> list[bytes]:
        """The lines of `events.jsonl`."""
        return (self.world.files.held.get(events_path(self.task_id)) or b"").splitlines()

    def inbox(self) -> list[Item]:
        """Return the items in the workspace's inbox."""
        return self._items_in(inbox_path(self.task_id))

    def applied(self) -> list[Item]:
        """Return the applied items."""
        return self._items_in(applied_folder(self.task_id))

    def _items_in(self, folder: str) -> list[Item]:
        held = self.world.files.held
        return [parse_item(held[path]) for path in held if path.startswith(folder)]


TaskCheck = Callable[[Run, "CheckedTask"], None]


def _checks(run: Run, task: CheckedTask) -> list[TaskCheck]:
    if task.open:
        return [_check_history, _check_guards, _check_waiting, _check_summary, _check_numbers, _check_live, _check_late]
    accepted = any(deed.answer == "accepted" for deed in run.users.actions if _creates(deed, task))
    if not accepted and task.stored is None and not task.summary.status.ended:
        return []  # no process acts on the task until the client submits it again
    closed = [_check_closed, _check_events, _check_one_end, _check_log, _check_forgotten, _check_notices]
    return [_check_history, _check_guards, *closed, _check_numbers, _check_live, _check_late]


def _creates(deed: UserAction, task: CheckedTask) -> bool:
    if deed.kind == "retry":
        return deed.task_id == task.summary.retry_of
    return deed.task_id == task.task_id and deed.kind in ("submit", "fork")


def _check_guards(run: Run, task: CheckedTask) -> None:
    """Require that an agent has a turn only after guards have passed each message since the turn before."""
    team = task.world.engine.workspace.frozen_teams.find(task.task_id)
    passed, guards = True, None if team is None else team.guards
    for before, step in pairwise(task.history) if guards is not None and guards.output else ():
        fresh = step.by_agent and step.text != "" and REFUSED not in step.metadata
        require("guarded answer", not fresh or before.metadata.get(GUARDS, {}).get("passed") is True, f"{step.seq}")
    for step in task.history if guards is not None and guards.input else ():
        passed = (passed and step.agent_name != USER) or step.metadata.get(GUARDS, {}).get("passed") is True
        require("guards", passed or not step.by_agent or REFUSED in step.metadata, f"{task.task_id} step {step.seq}")


def _check_history(run: Run, task: CheckedTask) -> None:
    lines = list(task.world.histories.lines(task.task_id))
    require("chain", verify_chain(lines) == len(task.history), task.task_id)
    require("chain", [step.seq for step in task.history] == list(range(len(lines))), task.task_id)
    for step, after in zip(task.history, [*task.history[1:], None], strict=True):
        ids = [call.id for call in step.calls]
        results = [] if after is None else [result.tool_call_id for result in after.results]
        pending = after is None and task.open
        silent = not step.is_interruption or after is None or not after.by_agent
        require("interruption waits for the user", silent, f"{task.task_id} step {step.seq}")
        require("one result a call", pending or sorted(ids) == sorted(results), f"{task.task_id} step {step.seq}")
    items = Counter(step.metadata.get("item_id") for step in task.history if "item_id" in step.metadata)
    require("items once", all(count == 1 for count in items.values()), f"{task.task_id} {items}")
    kinds = Counter(type(item).__name__ for item in (*task.applied(), *task.inbox()) if item.item_id.startswith("b_"))
    require("bulk once", all(count == 1 for count in kinds.values()), f"{task.task_id} {kinds}")


def _check_waiting(run: Run, task: CheckedTask) -> None:
    board = task.stored
    if board is None:
        raise Violation("waits", f"{task.task_id} is open, and unknown to Redis")
    waits = board.phase is Phase.WAIT and board.status.waiting
    require("waits", waits or _at_children(task, board), _state(task, board))
    require("task store agrees", board.seq == len(task.history), f"{_state(task, board)}, {len(task.history)} steps")
    if board.phase is Phase.WAIT and not run.losses:  # a call whose outcome Redis lost runs again after the wait
        require("items are applied", task.world.waits_on(task.task_id), _state(task, board))
    ids = {item.item_id for item in task.inbox()}
    noted = task.world.server.held.inboxes.get(task.task_id, set())
    if not waits:  # an item whose client died before it was accepted is found once the task waits
        ids -= {deed.item_id for deed in run.users.actions if deed.answer == "unknown"} - noted
    require("inbox agrees", ids == noted, f"{task.task_id} stored {sorted(ids)}, noted {sorted(noted)}")


def _check_summary(run: Run, task: CheckedTask) -> None:
    board = task.stored
    if board is None or board.phase is not Phase.WAIT:
        return
    shown, now = (task.summary.status, task.summary.reason, task.summary.steps), (board.status, board.reason, board.seq)
    require("task.json of a waiting task", shown == now, f"{shown}, {_state(task, board)}")


def _at_children(task: CheckedTask, board: StoredTask) -> bool:
    """Return True if the task waits for its sub-tasks."""
    return board.phase is Phase.TOOLS and any(call.tool_name == "delegate" for call in task.history[-1].calls)


def _state(task: CheckedTask, board: StoredTask) -> str:
    return f"{task.task_id} is {board.phase} {board.status} {board.reason!r} at {board.seq}"


def _check_closed(run: Run, task: CheckedTask) -> None:
    task_id, summary = task.task_id, task.summary
    require("task.json of a closed task", summary.status.ended, f"{task_id} is {summary.status} {summary.reason!r}")
    steps = len(task.history)
    require("task.json of a closed task", summary.steps == steps, f"{summary.steps} of {steps}")


def _check_events(run: Run, task: CheckedTask) -> None:
    events = [json.loads(line) for line in task.stored_events]
    ends = [event["status"] for event in events if event["type"] == END]
    require("events.jsonl has one end", len(ends) == 1, f"{task.task_id} {_types(events)}")
    require("events.jsonl has one end", events[-1]["type"] == END, f"{task.task_id} {_types(events)}")
    require("statuses agree", ends[-1] == task.summary.status, f"{ends}, {task.summary.status}")


def _check_one_end(run: Run, task: CheckedTask) -> None:
    """Require that no step and no other end follows the published end of a task, unless Redis has lost data.

    Redis may lose an end that followers have received.
    """
    if run.losses:
        return
    records = [json.loads(message) for task_id, message in task.world.server.published if task_id == task.task_id]
    first = next((index for index, record in enumerate(records) if record["type"] == END), len(records))
    ends = {
        (record["type"], record.get("status")) for record in records[first:] if record["type"] not in MAY_FOLLOW_THE_END
    }
    require("one end", len(ends) <= 1, f"{task.task_id}: {_types(records[first:])}")


def _check_log(run: Run, task: CheckedTask) -> None:
    if (board := task.stored) is None:
        return
    if run.losses and any(json.loads(line)["generation"] > board.generation for line in task.stored_events):
        return  # Redis was restored to an earlier generation of a closed task: both hold its end
    log = [json.loads(to_stored(message.encode())) for message in board.events]
    kept = [json.loads(line) for line in task.stored_events]
    kept = [record for record in kept if record["generation"] == board.generation][max(0, board.first_event - 1) :]
    if run.losses:  # an end that Redis lost is decided again: the same event, at a later time
        for record in (*log, *kept):
            record.pop("timestamp", None)
    require("events.jsonl agrees", log == kept, f"{_types(log)}, {_types(kept)}")


def _check_numbers(run: Run, task: CheckedTask) -> None:
    """Require that no number was published twice in the current generation.

    After a restart of Redis between a loss of all data and the next sweep this may happen: no trace of the restart is
    left.
    """
    if (board := task.stored) is None or run.unnoticed_restart:
        return
    published: dict[tuple[bool, int], str] = {}
    for task_id, message in task.world.server.published:
        record = json.loads(message)
        if task_id == task.task_id and record["generation"] == board.generation:
            before = published.setdefault(("chunks" in record, record["seq"]), message)
            require("numbers are unique", before == message, f"{task.task_id}: {before} {message}")


def _check_forgotten(run: Run, task: CheckedTask) -> None:
    board, schedule = task.stored, task.world.server.held.schedule
    require("schedule", task.task_id not in schedule, task.task_id)
    require("forgotten", board is None or board.forget_at is not None, f"Redis never forgets {task.task_id}")


def _types(events: Any) -> str:
    return " ".join(f"{event['generation'][-2:]}.{event['seq']}.{event['type'][6:]}" for event in events)


def _check_notices(run: Run, task: CheckedTask) -> None:
    """Require that each target got its notifications in their order, and that its last one is the task's end.

    A repetition of a notification, which has the same name, may arrive at any time.
    """
    world = task.world
    require("notified", f"_notify/{task.task_id}" not in world.files.held, f"{task.task_id} has pending notifications")
    targets = targets_from_json(world.files.held.get(notify_targets_path(task.task_id)) or b"[]")
    for index, target in enumerate(targets):
        notices = [notice for _, notice in world.notifier.deliveries if notice.task_id == task.task_id]
        heard = {notice.name: notice.status for notice in notices if notice.target == index}
        names = list(map(NotificationName.parse, heard))
        require("order of notifications", names == sorted(names), f"{target.label}: {list(heard)}")
        if not task.open and task.summary.status in target.on:
            require("notified", list(heard.values())[-1:] == [task.summary.status], f"{target.label}: {list(heard)}")


def _check_late(run: Run, task: CheckedTask) -> None:
    _check_follower(run, task, TaskFollower(task.world, task.task_id), "late")


def _check_live(run: Run, task: CheckedTask) -> None:
    if task.task_id == TASK and not run.unnoticed_restart:
        _check_follower(run, task, run.follower, "live")


def _check_follower(run: Run, task: CheckedTask, follower: TaskFollower, name: str) -> None:
    follower.read_logs()
    if not task.open:
        try:
            follower.finish()
        except AssertionError as error:
            follower.violation = Violation("follower", str(error))
    if follower.violation is not None:
        raise Violation(f"{name} follower", f"{task.task_id} {follower.violation.facts}")
    if follower.ends and run.losses and name == "live":
        return  # Redis lost the end that this client received, and the task continued
    steps = len(follower.reader.steps)
    shown = [step.shown for step in task.history]
    require(f"{name} follower has all steps", follower.reader.steps == shown, f"{steps} of {len(shown)}")
    require(f"{name} follower has one end", follower.ends == (not task.open), f"{task.task_id} {follower.ends} ends")


def _check_payments(world: World) -> None:
    runs = Counter((context.task_id, context.call_id) for context in world.given.toolbox.runs)  # a fork has equal ids
    paid = {
        (task_id, call.id) for task_id in world.histories.held for step in world.history(task_id) for call in step.calls
    }
    irreversible = {
        (task_id, call.id)
        for task_id in world.histories.held
        for step in world.history(task_id)
        for call in step.calls
        if call.tool_name == "pay"
    }
    sent = Counter(task.call_id for task in world.shop.sent if task.tool.effect == "irreversible")
    require("irreversible once", all(count == 1 for count in sent.values()), sent)
    require("irreversible once", all(runs[call] <= 1 for call in irreversible), runs)
    erased = any(path.startswith(TOMBSTONES) for path in world.files.held)
    require("only known calls run", erased or set(runs) <= paid, set(runs) - paid)


def _check_action(run: Run, deed: UserAction) -> None:  # noqa: C901 - one branch for each kind of action
    world = run.world
    if deed.answer != "accepted" or deed.kind in ("off", "on", "erase", "bulk", "export"):
        return
    if deed.kind in ("submit", "fork"):
        require("accepted task", summary_path(deed.task_id) in world.files.held, deed)
        return
    task = CheckedTask(world, deed.task_id)
    if deed.kind == "retry":
        _check_retry(run, task)
        return
    item = stored_item(world.engine.workspace, deed.task_id, deed.item_id)
    steps = [step for step in task.history if step.metadata.get("item_id") == deed.item_id]
    if deed.kind == "stop":
        require("stop stops", not task.open, deed)
        return
    if item is None:
        raise Violation("accepted item", f"{deed} is not stored")
    if deed.kind in ANSWERING_ACTIONS:
        done = item.applied_at_seq is not None or task.summary.status is not TaskStatus.COMPLETED
        require("accepted item", done, f"{deed}, {item}")
    if deed.kind not in STEP_ACTIONS:
        return
    ended_early = not task.open and task.summary.status is not TaskStatus.COMPLETED
    waits = task.open and item.applied_at_seq is None
    in_time = not deed.late or run.losses  # Redis may have lost the end that made it late
    vain = isinstance(item, Interrupt) and item.applied_at_seq is not None  # the task waited for its user already
    require("accepted item", steps or waits or vain or (ended_early and in_time), f"{deed}, {item}")
    if not waits and (steps or not vain):
        _check_receipt(world, deed, steps)


def _check_retry(run: Run, task: CheckedTask) -> None:
    """Require that a task whose retry was accepted has failed, and names the one task that continues with its steps."""
    world, task_id, new_id = run.world, task.task_id, task.summary.retried_as
    failed = task.summary.status is TaskStatus.FAILED
    require("accepted retry", failed and new_id, f"{task_id} is {task.summary.status}, retried as {new_id!r}")
    if is_erased(world, new_id):
        return
    history = world.history(new_id)
    copied = [step.digest for step in history[: len(task.history)]] == [step.digest for step in task.history]
    require("accepted retry", copied and history[len(task.history)].is_retry, f"{task_id}, {new_id}")
    named = [one for one in run.users.tasks() if world.summary(one).retry_of == task_id]
    require("one retry for one end", named == [new_id], f"{task_id}: {named}, {new_id}")


def _check_pauses(run: Run) -> None:
    """Require that at most the turn in flight ends after a pause, until a user continues the task."""
    if run.losses or any(deed.kind in CONTINUING_ACTIONS for deed in run.users.actions):
        return  # the sweeper restores a pause that Redis has lost
    for deed in run.users.actions:
        if deed.kind != "pause" or deed.answer != "accepted":
            continue
        turns = [step for step in run.world.history(deed.task_id)[deed.steps :] if step.by_agent]
        require("pause", len(turns) <= 1, f"{deed}, {len(turns)} turns after it")


def _check_receipt(world: World, deed: UserAction, steps: list[TaskStep]) -> None:
    receipt = find_receipt(world.engine.workspace, deed.task_id, deed.item_id)
    position = steps[0].seq if steps else None
    require("receipt", receipt.applied_at_seq == position, f"{deed}, step {position}, {receipt}")
    require("receipt", receipt.expired == (not steps), f"{deed}, {receipt}")
    times = [time for time in (receipt.seen_at, receipt.closed_at) if time is not None]
    require("receipt", times == sorted(times), receipt)


def _orphaned_keys(world: World) -> dict[str, object]:
    """Return the keys in Redis that no process will remove."""
    held = world.server.held
    closed = {task_id for task_id in held.inboxes if open_marker_path(task_id) not in world.files.held}
    lost = closed - held.tasks.keys() - held.inbox_until.keys()
    inboxes = {task_id: held.inboxes[task_id] for task_id in lost if held.inboxes[task_id]}
    strangers = {task_id: task for task_id, task in held.tasks.items() if task_id not in world.histories.held}
    return {name: keys for name, keys in {"inboxes": inboxes, "tasks": strangers}.items() if keys}
