"""history_length: a turn at the end of a long history, against one at its beginning.

The histories differ in length and are otherwise the same: the first steps of a real one, repeated. Each is stored in
the workspace of a task that Redis then forgets, and set up again from there, as after a loss; from then on it goes on
as every task does. They go on by turns, a block of steps each, so that all meet the same noise. A task waits for its
user after each block.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from roboco import Task
from roboco.adapters.redis.keys import Keys
from roboco.domain.history.step import USER, TaskStep
from roboco.domain.ids import step_id_at
from roboco.domain.paths import history_path
from roboco.engine.record.recover import rebuild
from tests.bench.harness.results import Measure, Result, Series, in_turn, ratio, turn_times
from tests.bench.harness.bench_stack import Size, Stage, await_steps, team_of

YOUNG, OLD, SPAN, SLICES = 5, 9_900, 100, 2
BETWEEN = (100, 1_000, 3_000)
GOAL = 1.1
COUNT = {
    "type": "graph",
    "routing_graph": {
        "first": [{"to": "USER", "when": {"matches": "^0$"}}, "second"],
        "second": [{"to": "USER", "when": {"matches": "^0$"}}, "first"],
    },
}


class _Growing:
    """A task with so many steps, whose agents count down what the user says, and then wait for its next word."""

    def __init__(self, stage: Stage, steps: int) -> None:
        team = team_of("first", "second", prompt="count", collaboration_model=COUNT)
        self.task: Task = stage.orchestrator.run(team, str(YOUNG - 1))
        self.steps = YOUNG
        await_steps(self.task, self.steps)
        if steps > self.steps:
            self._lengthen(stage, steps)

    def grow(self, turns: int) -> list[float]:
        """Go on for so many turns: the times from one to the next."""
        self.task.send(str(turns))
        before = self.steps
        self.steps += turns + 1
        await_steps(self.task, self.steps)
        return turn_times(self.task.history()[before:])

    def _lengthen(self, stage: Stage, steps: int) -> None:
        history = self.task.history()
        path = stage.folder / "workspace" / history_path(self.task.task_id)
        _write(path, self.task.task_id, history, steps - steps % YOUNG)
        stage.redis.delete(*Keys(stage.settings.prefix).task_keys(self.task.task_id))
        rebuild(stage.orchestrator._engine, self.task.task_id)
        stage.orchestrator._engine.dispatcher.advance(self.task.task_id)
        self.steps = steps - steps % YOUNG
        await_steps(self.task, self.steps)


def _write(path: Path, task_id: str, history: Sequence[TaskStep], steps: int) -> None:
    """Repeat the history until it has so many steps."""
    digest, lines = history[-1].digest, [step.line() for step in history]
    for seq in range(len(history), steps):
        step = history[seq % len(history)]
        own = step.step_id if step.agent_name == USER else step_id_at(task_id, seq)
        again = step.model_copy(update={"seq": seq, "step_id": own, "digest": ""}).sealed(digest)
        digest = again.digest
        lines.append(again.line())
    path.write_text("".join(f"{line}\n" for line in lines))


def measure(stage: Stage, size: Size) -> Iterator[Result]:
    """The young task, the old one and some between by turns, in as many blocks as there are rounds."""
    lengths = sorted({YOUNG, *(size.of(steps, 2 * YOUNG) for steps in (*BETWEEN, OLD))})
    tasks = [_Growing(stage, steps) for steps in lengths]
    block = max(3, size.of(SPAN) // (size.rounds * SLICES))
    measures: dict[str, Measure] = {}
    for task in tasks:
        measures[f"turn from step {task.steps}"] = _blocks(task, block)
    lanes = in_turn(measures, size.rounds, SLICES)
    old = lanes[-1]
    points = tuple((float(steps), lane.at(50) * 1000) for steps, lane in zip(lengths, lanes, strict=True))
    series = Series("cost_over_history_length", "a turn", points)
    yield Result(f"history_length, {lengths[-1]} steps", lanes, (ratio(old, lanes[0], goal=GOAL),), (), (series,))


def _blocks(task: _Growing, block: int) -> Measure:
    return lambda number: task.grow(block) if number else ()
