"""run_faults: a run without a fault, and then one for each fault, within a time; the result grows with each run."""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from roboco.cli.terminal.format import counted
from roboco.cli.terminal.sanitize import one_line
from roboco.domain.history.step import TOOL_EXECUTOR
from roboco.domain.status import TaskStatus
from roboco.errors import TransientError
from roboco.lab.drill.faults import INTERRUPTING, Fault
from roboco.lab.drill.promises import ObservedRun, ObservedTask, judge
from roboco.lab.drill.report import DrillReport
from roboco.lab.drill.result import DrillResult, FaultResult
from roboco.lab.drill.scene import Baseline
from roboco.lab.drill.weaknesses import Weakness, changed_end, lost_message

MAX_ERROR_CHARS: Final = 160
Execute = Callable[[Fault, Baseline], ObservedRun]
"""Runs the task under a fault."""
_NO_FAULT: Final = Fault("baseline", "baseline", "no fault", lambda _: (None for _ in ()))


def run_faults(
    execute: Execute,
    faults: Sequence[Fault],
    baseline: Baseline,
    time_limit: float,
    result: DrillResult,
    report: DrillReport,
) -> None:
    """Run the task without a fault, and then under each one. Raise TransientError if the first run fails."""
    began = time.monotonic()

    def add(fault: FaultResult) -> None:
        result.faults.append(fault)
        report.result(fault)

    report.start("the task without a fault", 0)
    run = execute(_NO_FAULT, baseline)
    add(_judged(_NO_FAULT, run))
    task = run.tasks[0]
    if task.status is None or task.status is TaskStatus.FAILED:
        raise TransientError(f"the task is {task.status or 'still running'} even without a fault: {task.last_error}")
    baseline = _with_run(baseline, run)
    for number, fault in enumerate(faults, 1):
        elapsed = time.monotonic() - began
        if why := fault.why_not(baseline):
            add(FaultResult(fault.name, fault.group, fault.text, "does not apply", why))
        elif elapsed > time_limit:
            why = f"the drill had already taken {elapsed:.0f} s: raise --time-limit"
            add(FaultResult(fault.name, fault.group, fault.text, "not run", why))
        else:
            report.start(fault.text, number)
            run = execute(fault, baseline)
            result.weaknesses += _weaknesses(fault, run, baseline)
            add(_judged(fault, run))


def _judged(fault: Fault, run: ObservedRun) -> FaultResult:
    judged = judge(run)
    broken = [f"{name}: {wrong}" for name, sentences in judged.items() for wrong in sentences]
    struck = bool(run.hit) or fault is _NO_FAULT
    calls = Counter((one.tool, one.key) for one in run.executions if one.tool in run.irreversible)
    return FaultResult(
        fault.name,
        fault.group,
        fault.text,
        "broken" if broken else "held" if struck else "not hit",
        why="" if struck else "the task came to rest before the moment of the fault",
        hit=run.hit,
        status=str(run.tasks[0].status or "open"),
        seconds=run.seconds,
        effects=[*run.notes, *_effects(run)],
        executions={tool: sum(calls[one] for one in calls if one[0] == tool) for tool, _ in calls},
        irreversible_calls=dict(Counter(tool for tool, _ in calls)),
        repeated=_repeated(run),
        broken=broken,
        promises={name: not sentences for name, sentences in judged.items()} if struck or broken else {},
        tasks=[task.task_id for task in run.tasks],
    )


def _with_run(baseline: Baseline, run: ObservedRun) -> Baseline:
    """Return the baseline with what the run without a fault has shown."""
    steps = [step for task in run.tasks for step in task.steps]
    return replace(
        baseline,
        tools=tuple(dict.fromkeys(one.tool for one in run.executions)),
        calls=sum(len(step.results) for step in steps if step.agent_name == TOOL_EXECUTOR),
        status=str(run.tasks[0].status),
    )


def _weaknesses(fault: Fault, run: ObservedRun, baseline: Baseline) -> Iterator[Weakness]:
    if fault.name == INTERRUPTING and (agents := [name for name, held in run.prompts.items() if not held]):
        yield lost_message(agents)
    task = run.tasks[0]
    if run.hit and fault.group != "user" and task.status and str(task.status) != baseline.status:
        yield changed_end(fault.name, str(task.status), task.last_error, baseline.status)


def _effects(run: ObservedRun) -> Iterator[str]:
    """Yield what happened to the task, in words for people."""
    events = Counter(kind for task in run.tasks if task.live is not None for kind in task.live.types)
    if restarts := events["event_turn_restart"]:
        yield f"{counted(restarts, 'turn')} begun again; readers learned that its first text is void"
    if events["event_stream_reset"]:
        yield "the streams began again from the workspace"
    for tool, number in _repeated(run).items():
        yield f"{tool} ran again for {counted(number, 'call')}, which its declared effect allows"
    yield from (error for task in run.tasks for error in _errors(task))
    if unknown := events["event_tool_unknown"]:
        yield f"a person had to resolve {counted(unknown, 'call')} with an unknown outcome"
    if run.closed_after is not None:
        yield f"the connection to the model was closed {run.closed_after:.2f} s after the request"
    if run.prompts:
        holding = [agent for agent, held in run.prompts.items() if held]
        yield f"prompts that held the message: {', '.join(holding) or 'none'}"


def _repeated(run: ObservedRun) -> dict[str, int]:
    """Return how many calls of each tool that is not irreversible ran more than once."""
    counts = Counter((one.tool, one.key) for one in run.executions if one.tool not in run.irreversible)
    return dict(Counter(tool for (tool, _), times in counts.items() if times > 1))


def _errors(task: ObservedTask) -> Iterator[str]:
    """Yield the errors that agents received as results of calls."""
    names = {call.id: call.tool_name for step in task.steps for call in step.calls}
    for result in (result for step in task.steps for result in step.results if result.is_error):
        error = one_line(result.error or "no reason", MAX_ERROR_CHARS)
        yield f"{names.get(result.tool_call_id, 'a tool')} answered with an error: {error}"
