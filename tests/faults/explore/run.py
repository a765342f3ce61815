"""The run of one schedule. The scheduler runs one process at a time and disturbs the deployment at port calls.

    stack ─► messages ─► held processes that are due ─► next disturbance ─► quiet ─► invariants

A process runs until the next disturbance is due or until it ends. Without a disturbance, the newest process goes on
first, then workers take messages in order. A held process waits until all others have nothing left to do.
"""

import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from roboco.engine.coordinate.advance import advance
from roboco.engine.coordinate.shop_task import accept_task_answer
from roboco.engine.engine import Engine
from roboco.engine.operate.notification_delivery import deliver
from roboco.engine.operate.retention import enforce_retention
from roboco.engine.record.tool_listings import list_tools
from roboco.engine.run.tool_call import run_call
from roboco.engine.run.turn import run_turn
from roboco.errors import TransientError, UsageError
from roboco.ports.shop import ShopTask
from tests.faults.explore.call_faults import set_fault
from tests.faults.explore.case import USER_ACTIONS, Case, Disturbance
from tests.faults.explore.followers import SessionClient, TaskFollower
from tests.faults.explore.process import SimulatedProcess
from tests.faults.explore.shapes import SHAPES, TASK, TaskFiles
from tests.faults.explore.users import UserAction, UserRequest, Users
from tests.faults.explore.violation import Violation
from tests.support.memory_ports.dispatcher import (
    AdvanceMessage,
    ListToolsMessage,
    Message,
    NotifyMessage,
    ToolMessage,
    TurnMessage,
)
from tests.support.memory_ports.remote_agent import ModelWithRemote
from tests.support.memory_ports.shop import answer_of
from tests.support.memory_ports.sweeping import sweep
from tests.support.memory_ports.watch import PortCall
from tests.support.memory_ports.world import SWEEP_INTERVAL

RECHECK_DELAY = 4000.0
"""Seconds after which every waiting task is reconciled and the schedule is filled again."""
QUIET_SECONDS = 250.0
"""Seconds without any due task after which the deployment counts as quiet."""
MAX_SWEEPS = 200
"""Sweeps after which a deployment that is not quiet breaks the invariant `settles`."""
MAX_PROCESSES = 500
"""Processes after which a busy deployment breaks the invariant `settles`. Most schedules start fewer than 40."""
DELAYS = (0.5, 2.5, 11.0, 16.0, 61.0, 301.0, 1801.0, 4000.0)
"""Seconds that pass at a disturbance."""
OUTAGE = 3600.0
"""Seconds for which the store refuses each request, unless the next disturbance of this kind ends that."""
DAY = 90_000.0
"""Seconds after which a scan of the retention begins again, and the last check of an erasure is due."""
NEVER = 1_000_000
STORE_CALLS = ("files.", "histories.")


@dataclass
class HeldProcess:
    """A process that waits for a number of further disturbances."""

    process: SimulatedProcess
    disturbances: int


class Run:
    """One schedule in a new deployment. `trace` receives a line for each port call and disturbance."""

    def __init__(self, case: Case, trace: Callable[[str], None] | None = None) -> None:
        shape = SHAPES[case.shape]
        self.world = shape.world(self._watch)
        assert isinstance(self.world.files, TaskFiles)
        self.files = self.world.files
        assert isinstance(self.world.given.model, ModelWithRemote)
        self.remote_agent = self.world.given.model.agent
        self.users = Users(self.world, shape)
        self.follower = TaskFollower(self.world, TASK)
        self.session = SessionClient(self.world, TASK)
        self.errors: list[Exception] = []
        self.losses = 0
        self.time_leaps = any(one.kind in ("pass", "sweep", "retain") for one in case.disturbances)
        self.refused_until = 0.0  # the time until which the store refuses each request
        self.repeated_turns: list[str] = []
        """Turns that a process has dispatched although their step was stored before this process began."""
        self.unnoticed_restart = False  # Redis was restarted after a loss of all data that no sweeper had noticed
        self.lists_late = False  # the store has listed names late
        self._left = list(case.disturbances)
        self._gap = self._left[0].gap if self._left else 0
        self._stack: list[SimulatedProcess] = []
        self._held: list[HeldProcess] = []
        self._running: SimulatedProcess | None = None
        self._idle_engines: list[Engine] = []
        self._undelivered: list[ShopTask] = []  # Celery tasks of the shop whose answers returned to their queue
        self.copies = [self.world.server.copy()]
        self._trace = trace
        self._names = Counter[str]()

    def explore(self) -> None:
        """Submit the task and run all disturbances."""
        self._act("submit", 0)
        self._work()
        self.settle()

    def settle(self) -> None:
        """Run without further disturbances until the deployment is quiet."""
        self._left = []
        self.world.server.deaf, self.refused_until = False, 0.0
        if self.world.engine.process.switches.stored().off:
            self._act("on", 0)
        for held in self._held:
            held.disturbances = 0
        for _ in range(MAX_SWEEPS):
            self._work()
            if self.is_quiet():
                return
            schedule = self.world.server.held.schedule.values()
            self.world.clock.move(
                max(
                    SWEEP_INTERVAL,
                    min(schedule, default=self.world.clock.now() + QUIET_SECONDS) - self.world.clock.now(),
                )
            )
            self.sweep()
        raise Violation("settles", f"after {MAX_SWEEPS} sweeps: {self.world.server.held.schedule}")

    def is_quiet(self) -> bool:
        """Return whether every open task is scheduled, and none of them soon."""
        schedule, now = self.world.server.held.schedule, self.world.clock.now()
        return set(self.open_tasks()) <= schedule.keys() and all(at > now + QUIET_SECONDS for at in schedule.values())

    def sweep_after_hours(self, rounds: int) -> None:
        """Advance the clock by hours and sweep, so that all infrequent repairs happen.

        A task that has waited for a day, because a process was held for so long, is checked after another one.
        """
        for _ in range(rounds):
            due = max(self.world.server.held.schedule.values(), default=0.0) - self.world.clock.now()
            self.world.clock.move(max(RECHECK_DELAY, due))
            self.sweep()
            self.settle()

    def perform_action(self, kind: str, choice: int = 0) -> UserAction | None:
        """Perform a user's action in a quiet deployment, and run until it is quiet again."""
        deed = self._act(kind, choice)
        self.settle()
        return deed

    def open_tasks(self) -> list[str]:
        """Return the ids of the tasks that are not closed."""
        return sorted(path.removeprefix("_open/") for path in self.world.files.held if path.startswith("_open/"))

    def stop(self, task_id: str) -> None:
        """Stop the task as a user, and run until the deployment is quiet again."""
        self._start_action(self.users.stop(task_id))
        self.settle()

    def end(self) -> None:
        """Kill all remaining processes."""
        for process in [*self._stack, *self.held]:
            self._running = process
            process.kill()
        self._running = None

    @property
    def held(self) -> list[SimulatedProcess]:
        """The held processes."""
        return [held.process for held in self._held]

    def release(self, process: SimulatedProcess) -> None:
        """Continue a held process before all others."""
        self._held = [held for held in self._held if held.process is not process]
        self._stack.append(process)

    def delay_effect(self, call: PortCall, disturbances: int) -> None:
        """Make the call later, after a number of disturbances, even if its process ends before."""
        self._hold(SimulatedProcess("late effect", lambda: self._make(call)), disturbances)

    # ---- scheduling

    def _work(self) -> None:
        """Run until no process, message and disturbance is left."""
        while True:
            if self._stack:
                self._step(self._stack[-1])
            elif self.world.dispatcher.queue:
                self.deliver(self.world.dispatcher.queue.popleft())
            elif self.world.shop.queue:
                self._answer(self.world.shop.queue.pop(0))
            elif ready := next((held for held in self._held if held.disturbances <= 0), None):
                self.release(ready.process)
            elif self._left:
                self._apply_next_disturbance(None)
            elif self._held:  # these wait until the deployment is quiet
                self.release(self._held[0].process)
            else:
                return

    def _step(self, process: SimulatedProcess) -> None:
        self._running = process
        process.run_to_pause()
        self._running = None
        if not process.ended:
            self._apply_next_disturbance(process)
            return
        self._stack.remove(process)
        if process.error is not None and not isinstance(process.error, TransientError):
            self.errors.append(process.error)

    def _watch(self, name: str, call: PortCall) -> Any:
        process = self._running
        if process is None:
            return call()
        if self._trace is not None:
            self._trace(f"    {process.name:<14} {_described(name, call)}")
        if name == "dispatcher.turn":
            args: Any = getattr(call, "args", None)
            order = args[0]
            if process.steps_at_start.get(order.task_id, 0) > order.seq:
                self.repeated_turns.append(str(order))
        refused = name.startswith(STORE_CALLS) and self.world.clock.now() < self.refused_until
        made = partial(self._make, self._refused(name) if refused else call)
        if not self._left or not self._left[0].is_due(self._gap, name):
            self._gap -= bool(self._left) and self._left[0].applies_to(name)
            return made()
        return process.pause(name, made)

    def _refused(self, name: str) -> PortCall:
        def refuse() -> Any:
            raise TransientError(f"the store refuses {name}")

        return refuse

    def _make(self, call: PortCall) -> Any:
        answer = call()
        self.follower.read_logs()
        return answer

    def _apply_next_disturbance(self, process: SimulatedProcess | None) -> None:
        """Apply the next disturbance, at a port call of this process."""
        now = self._left.pop(0)
        self._gap = self._left[0].gap if self._left else 0
        if any(later.kind == "back" for later in self._left):
            self.copies.append(self.world.server.copy())
        for held in self._held:
            held.disturbances -= held.disturbances < NEVER
        if self._trace is not None:
            self._trace(f"!!  {now}" + (f" at {process.name} {process.pending}" if process else ""))
        self._disturb(now, process)

    def _disturb(self, now: Disturbance, process: SimulatedProcess | None) -> None:
        if now.kind in ENVIRONMENT_FAULTS:
            ENVIRONMENT_FAULTS[now.kind](self, now.choice)
        elif now.kind in USER_ACTIONS:
            self._act(now.kind, now.choice)
        elif process is not None and now.kind == "hold":
            self._stack.remove(process)
            self._hold(process, now.choice)
        elif process is not None:
            set_fault(now.kind, process, now.choice, partial(self.delay_effect, disturbances=now.choice))

    def _hold(self, process: SimulatedProcess, disturbances: int) -> None:
        """Hold the process for up to 2 further disturbances; with 3, until the deployment is quiet."""
        self._held.append(HeldProcess(process, disturbances % 4 if disturbances % 4 < 3 else NEVER))

    # ---- processes

    def _start(self, name: str, work: Callable[[Engine], object]) -> None:
        """Start a process. Its engine is reused unless the process dies or raises."""
        self._names[name] = number = self._names[name] + 1
        if self._names.total() > MAX_PROCESSES:
            raise Violation("settles", f"still busy after {MAX_PROCESSES} processes: {dict(self._names)}")

        def run() -> None:
            engine = process.engine = self._idle_engines.pop() if self._idle_engines else self.world.process()
            work(engine)
            self._idle_engines.append(engine)

        process = SimulatedProcess(f"{name} {number}", run)
        process.steps_at_start = {task_id: len(lines) for task_id, lines in self.world.histories.held.items()}
        self._stack.append(process)

    def beat(self) -> None:
        """Start the heartbeats of all processes."""
        self._start("heartbeat", lambda engine: self.world.heartbeat.beat())

    def sweep(self) -> None:
        """Start a sweep. Answers that returned to their queue are delivered again."""
        self.world.shop.queue += self._undelivered
        self._undelivered = []
        self._start("sweep", lambda engine: sweep(engine, self.world.server))

    def retain(self) -> None:
        """Start a scan of the retention."""
        self._start("retain", lambda engine: enforce_retention(engine, 10.0))

    def deliver(self, message: Message) -> None:
        """Start a worker with the message."""
        match message:
            case AdvanceMessage():
                self._start("advance", lambda engine: advance(engine, message.task_id))
            case TurnMessage():
                self._start("turn", lambda engine: run_turn(engine, message.assignment))
            case ToolMessage():
                self._start("tool", lambda engine: run_call(engine, message.assignment))
            case ListToolsMessage():
                self._start("list tools", lambda engine: list_tools(engine, message.request))
            case NotifyMessage():
                self._start("notify", lambda engine: deliver(engine, message.task_id))

    def _answer(self, task: ShopTask) -> None:
        """Run a Celery task of the shop, and start a coordinator with its answer. It may be delivered again."""

        def accept(engine: Engine) -> None:
            try:
                accept_task_answer(engine, answer_of(task))
            except UsageError:
                return  # it is late
            except TransientError:
                self._undelivered.append(task)

        self._start("answer of the shop", accept)

    def _act(self, kind: str, choice: int) -> UserAction | None:
        found = self.users.act(kind, choice)
        if found is None:
            return None
        self._start_action(found)
        return found[0]

    def _start_action(self, found: tuple[UserAction, UserRequest]) -> None:
        deed, request = found
        self._start(deed.kind, partial(self._perform, deed, request))

    def _perform(self, deed: UserAction, request: UserRequest, engine: Engine) -> None:
        self.users.perform(engine, deed, request)


def _release(run: Run, choice: int) -> None:
    if run.held:
        run.release(run.held[choice % len(run.held)])


def _deliver(run: Run, choice: int) -> None:
    if queue := run.world.dispatcher.queue:
        message = queue[choice % len(queue)]
        del queue[choice % len(queue)]
        run.deliver(message)


def _again(run: Run, choice: int) -> None:
    if sent := run.world.dispatcher.sent:
        run.deliver(sent[-1 - choice % len(sent)])


def _lose(run: Run, choice: int) -> None:
    if queue := run.world.dispatcher.queue:
        del queue[choice % len(queue)]


def _copy(run: Run, choice: int) -> None:
    if queue := run.world.dispatcher.queue:
        queue.append(queue[choice % len(queue)])


def _sweep(run: Run, choice: int) -> None:
    _pass(run, choice)
    run.sweep()


def _pass(run: Run, choice: int) -> None:
    run.world.clock.move(DELAYS[choice])


def _beat(run: Run, choice: int) -> None:
    run.beat()


def _deaf(run: Run, choice: int) -> None:
    run.world.server.deaf = not run.world.server.deaf


def _wipe(run: Run, choice: int) -> None:
    run.losses += 1
    run.world.server.wipe()


def _restart(run: Run, choice: int) -> None:
    run.world.server.restore(run.world.server.copy())
    run.unnoticed_restart |= run.world.server.held.filled_instance == 0


def _back(run: Run, choice: int) -> None:
    run.losses += 1
    run.world.server.restore(run.copies[-1 - choice % len(run.copies)])
    run.unnoticed_restart |= run.world.server.held.filled_instance == 0


def _refuse(run: Run, choice: int) -> None:
    now = run.world.clock.now()
    run.refused_until = 0.0 if now < run.refused_until else now + OUTAGE


def _stale(run: Run, choice: int) -> None:
    run.lists_late = True
    run.files.freeze_lists()


def _retain(run: Run, choice: int) -> None:
    run.world.clock.move(DAY if choice >= 4 else 0.0)
    run.retain()


ENVIRONMENT_FAULTS: dict[str, Callable[[Run, int], None]] = {
    "release": _release,
    "deliver": _deliver,
    "again": _again,
    "lose": _lose,
    "copy": _copy,
    "sweep": _sweep,
    "pass": _pass,
    "beat": _beat,
    "deaf": _deaf,
    "wipe": _wipe,
    "restart": _restart,
    "back": _back,
    "refuse": _refuse,
    "stale": _stale,
    "retain": _retain,
}
"""Disturbances by other workers, the broker, time, Redis and the store. The choice is from 0 to 7."""


def _described(name: str, call: PortCall) -> str:
    args = getattr(call, "args", ())
    return f"{name} " + " ".join(str(arg)[:60] for arg in args[:3])


class ErrorCollector(logging.Handler):
    """A log handler that collects the exceptions that the engine logs instead of raising them."""

    def __init__(self, errors: list[Exception]) -> None:
        super().__init__(logging.ERROR)
        self._errors = errors

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, Exception) and not isinstance(error, TransientError):
            self._errors.append(error)

    def __enter__(self) -> None:
        logging.getLogger("roboco").addHandler(self)

    def __exit__(self, *_: object) -> None:
        logging.getLogger("roboco").removeHandler(self)
