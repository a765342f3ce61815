"""effects: what a fault did to a task, in words for people."""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from roboco.cli.terminal.format import counted
from roboco.cli.terminal.sanitize import one_line
from roboco.lab.drill.promises import ObservedRun
from roboco.lab.drill.run_record import RunRecord
from roboco.lab.drill.scene import Baseline

PAUSE_WORTH_NAMING: Final = 1.5
"""Seconds without an item after which the report names the pause."""
MAX_ERROR_CHARS: Final = 160


def effects(record: RunRecord, baseline: Baseline) -> Iterator[str]:
    """Yield what happened to the task, and what the fault has seen."""
    yield from record.scene.notes
    if record.restarts:
        yield f"{counted(record.restarts, 'turn')} begun again; readers learned that its first text is void"
    if record.resets:
        yield "the streams began again from the workspace"
    yield from _repetitions(record)
    yield from _errors(record.observed)
    if record.unknown:
        yield f"a person had to resolve {counted(record.unknown, 'call')} with an unknown outcome"
    if record.dead_letters > 0:
        yield f"{counted(record.dead_letters, 'dead letter')} stored"
    if record.observed.closed_after is not None:
        yield f"the connection to the model was closed {record.observed.closed_after:.2f} s after the request"
    if record.prompts:
        holding = [agent for agent, held in record.prompts.items() if held]
        yield f"prompts that held the message: {', '.join(holding) or 'none'}"
    if record.pause_seconds > max(PAUSE_WORTH_NAMING, baseline.seconds / 2):
        yield f"readers received nothing for {record.pause_seconds:.1f} s"


def _repetitions(record: RunRecord) -> Iterator[str]:
    """Yield the tools that ran more often than they were called. For irreversible ones that breaks a promise."""
    counts = Counter((one.tool, one.key) for one in record.observed.executions)
    tools = Counter(tool for (tool, _), number in counts.items() if number > 1)
    for tool, number in tools.items():
        if tool not in record.observed.irreversible:
            yield f"{tool} ran again for {counted(number, 'call')}, which its declared effect allows"


def _errors(observed: ObservedRun) -> Iterator[str]:
    """Yield the errors that agents received as results of calls."""
    for task in observed.tasks:
        names = {call.id: call.tool_name for step in task.steps for call in step.calls}
        for result in (result for step in task.steps for result in step.results if result.is_error):
            error = one_line(result.error or "no reason", MAX_ERROR_CHARS)
            yield f"{names.get(result.tool_call_id, 'a tool')} answered with an error: {error}"
