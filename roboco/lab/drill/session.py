"""DrillSession: a run without a fault, and then one for each fault, within a time; the result grows with each run."""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from roboco.domain.status import TaskStatus
from roboco.errors import TransientError
from roboco.lab.drill.drill_run import DrillPlan, DrillRun, baseline_of
from roboco.lab.drill.effects import effects
from roboco.lab.drill.faults import INTERRUPTING, Fault
from roboco.lab.drill.promises import judge
from roboco.lab.drill.result import DrillResult, FaultResult
from roboco.lab.drill.run_record import RunRecord
from roboco.lab.drill.scene import Baseline
from roboco.lab.drill.weaknesses import changed_end, lost_message


@dataclass(frozen=True)
class DrillSession:
    """Runs faults on a plan, and adds what they show to `result`."""

    plan: DrillPlan
    result: DrillResult
    irreversible: frozenset[str]
    time_limit: float
    on_start: Callable[[str, int], None]
    """Called with the text and the number of each run, before it."""
    on_result: Callable[[FaultResult], None]
    real_model: bool = False

    def run(self, faults: Sequence[Fault]) -> None:
        """Run the task without a fault, and then under each one. Raise TransientError if the first run fails."""
        began = time.monotonic()
        self.on_start("the task without a fault", 0)
        record = DrillRun(self.plan, None, Baseline(irreversible=self.irreversible)).execute()
        baseline = baseline_of(record, self.irreversible)
        self._add(self._judged(_NO_FAULT, record, baseline))
        self._check_baseline(record)
        for number, fault in enumerate(faults, 1):
            self._add(self._run(fault, number, baseline, time.monotonic() - began))

    def _run(self, fault: Fault, number: int, baseline: Baseline, elapsed: float) -> FaultResult:
        why = fault.why_not(baseline, self.plan.stack.without_store, self.real_model)
        if why:
            return FaultResult(fault.name, fault.group, fault.text, "does not apply", why)
        if elapsed > self.time_limit:
            why = f"the drill had already taken {elapsed:.0f} s: raise --time-limit"
            return FaultResult(fault.name, fault.group, fault.text, "not run", why)
        self.on_start(fault.text, number)
        record = DrillRun(self.plan, fault, baseline).execute()
        self._note_weaknesses(fault, record, baseline)
        return self._judged(fault, record, baseline)

    def _add(self, result: FaultResult) -> None:
        self.result.faults.append(result)
        self.on_result(result)

    def _check_baseline(self, record: RunRecord) -> None:
        """Raise TransientError if the task does not rest without a fault: faults would show nothing then."""
        task = record.observed.tasks[0]
        if task.status is None or task.status is TaskStatus.FAILED:
            error = next((step.error.message for step in reversed(task.steps) if step.error), task.reason)
            raise TransientError(f"the task is {task.status or 'still running'} even without a fault: {error}")

    def _judged(self, fault: Fault, record: RunRecord, baseline: Baseline) -> FaultResult:
        judgements = judge(record.observed)
        broken = any(one.broken for one in judgements)
        struck = bool(record.scene.hit) or fault is _NO_FAULT
        observed = record.observed
        ran = [one for one in observed.executions if one.tool in self.irreversible]
        return FaultResult(
            fault.name,
            fault.group,
            fault.text,
            "broken" if broken else "held" if struck else "not hit",
            why="" if struck else "the task came to rest before the moment of the fault",
            hit=record.scene.hit,
            status=str(observed.tasks[0].status or "open"),
            seconds=record.seconds,
            effects=list(effects(record, baseline)),
            executions=dict(Counter(one.tool for one in ran)),
            irreversible_calls=dict(Counter(tool for tool, _ in {(one.tool, one.key) for one in ran})),
            judgements=judgements if struck or broken else (),
            tasks=[task.task_id for task in observed.tasks],
        )

    def _note_weaknesses(self, fault: Fault, record: RunRecord, baseline: Baseline) -> None:
        if fault.name == INTERRUPTING and (agents := [name for name, held in record.prompts.items() if not held]):
            self.result.weaknesses.append(lost_message(agents))
        task = record.observed.tasks[0]
        if record.scene.hit and fault.group != "user" and task.status and str(task.status) != baseline.status:
            error = next((step.error.message for step in reversed(task.steps) if step.error), task.reason)
            self.result.weaknesses.append(changed_end(fault.name, str(task.status), error, baseline.status))


_NO_FAULT: Final = Fault("baseline", "baseline", "no fault", lambda _: (None for _ in ()))
