"""history_length: a turn at the end of a long history, against one at its beginning.

The histories differ only in length: each repeats the first steps of a real history. The bench writes a history into the
workspace, deletes the task's keys in Redis, and rebuilds them from the workspace, as after a loss. From then on the
task runs as every other. The tasks alternate, one block of steps each, so that all meet the same load of the machine.
A task waits for its user after each block.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from roboco import Task
from roboco.domain.history.step import USER, TaskStep
from roboco.domain.ids import step_id_at
from roboco.domain.paths import history_path
from roboco.engine.record.recover import rebuild
from roboco.redis.keys import Keys
from tests.bench.harness.bench_stack import BenchStack, Size, build_team, wait_for_steps
from tests.bench.harness.results import Result, Sampler, Series, measure_alternately, ratio, turn_times

SHORT_STEPS, LONG_STEPS, TURNS, SLICES = 5, 9_900, 100, 2
MIDDLE_STEPS = (100, 1_000, 3_000)
GOAL = 1.1
COUNTDOWN = {
    "type": "graph",
    "routing_graph": {
        "first": [{"to": "USER", "when": {"matches": "^0$"}}, "second"],
        "second": [{"to": "USER", "when": {"matches": "^0$"}}, "first"],
    },
}


class _GrowingTask:
    """A task of given length, whose agents count down from the user's number and then wait for a message."""

    def __init__(self, stack: BenchStack, steps: int) -> None:
        team = build_team("first", "second", prompt="count", collaboration_model=COUNTDOWN)
        self.task: Task = stack.orchestrator.run(team, str(SHORT_STEPS - 1))
        self.steps = SHORT_STEPS
        wait_for_steps(self.task, self.steps)
        if steps > self.steps:
            self._lengthen(stack, steps)

    def grow(self, turns: int) -> list[float]:
        """Continue the task for this number of turns, and return the seconds between them."""
        self.task.send(str(turns))
        before = self.steps
        self.steps += turns + 1
        wait_for_steps(self.task, self.steps)
        return turn_times(self.task.history()[before:])

    def _lengthen(self, stack: BenchStack, steps: int) -> None:
        history = self.task.history()
        path = stack.folder / "workspace" / history_path(self.task.task_id)
        _write(path, self.task.task_id, history, steps - steps % SHORT_STEPS)
        stack.redis.delete(*Keys(stack.settings.prefix).task_keys(self.task.task_id))
        rebuild(stack.orchestrator._engine, self.task.task_id)
        stack.orchestrator._engine.dispatcher.advance(self.task.task_id)
        self.steps = steps - steps % SHORT_STEPS
        wait_for_steps(self.task, self.steps)


def _write(path: Path, task_id: str, history: Sequence[TaskStep], steps: int) -> None:
    """Write the history, repeated up to this number of steps."""
    digest, lines = history[-1].digest, [step.line() for step in history]
    for seq in range(len(history), steps):
        step = history[seq % len(history)]
        step_id = step.step_id if step.agent_name == USER else step_id_at(task_id, seq)
        repeated = step.model_copy(update={"seq": seq, "step_id": step_id, "digest": ""}).sealed(digest)
        digest = repeated.digest
        lines.append(repeated.line())
    path.write_text("".join(f"{line}\n" for line in lines))


def measure(stack: BenchStack, size: Size) -> Iterator[Result]:
    """Measure tasks of different lengths alternately, in blocks of turns."""
    lengths = sorted({SHORT_STEPS, *(size.of(steps, 2 * SHORT_STEPS) for steps in (*MIDDLE_STEPS, LONG_STEPS))})
    tasks = [_GrowingTask(stack, steps) for steps in lengths]
    block = max(3, size.of(TURNS) // (size.rounds * SLICES))
    samplers: dict[str, Sampler] = {}
    for task in tasks:
        samplers[f"turn from step {task.steps}"] = _block_sampler(task, block)
    measurements = measure_alternately(samplers, size.rounds, SLICES)
    longest = measurements[-1]
    points = tuple(
        (float(steps), measurement.percentile(50) * 1000)
        for steps, measurement in zip(lengths, measurements, strict=True)
    )
    series = Series("cost_over_history_length", "a turn", points)
    yield Result(
        f"history_length, {lengths[-1]} steps",
        measurements,
        (ratio(longest, measurements[0], goal=GOAL),),
        (),
        (series,),
    )


def _block_sampler(task: _GrowingTask, block: int) -> Sampler:
    return lambda number: task.grow(block) if number else ()
