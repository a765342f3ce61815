"""history_length: a turn at the end of a long history, against one at its beginning.

An old task is grown first. Then it and a young one go on by turns, a block of steps each, so that both meet the same
noise. The old task's own beginning stands beside them, without a ratio: the machine was another one a minute before.
A task waits for its user after each block.
"""

from collections.abc import Iterator

from roboco import Task
from tests.bench.figures import Lane, Measure, Result, in_turn, ratio, turn_times
from tests.bench.stage import Size, Stage, await_steps, team_of

YOUNG, OLD, SPAN, SLICES = 5, 1950, 100, 2
COUNT = {
    "type": "graph",
    "routing_graph": {
        "first": [{"to": "USER", "when": {"matches": "^0$"}}, "second"],
        "second": [{"to": "USER", "when": {"matches": "^0$"}}, "first"],
    },
}


class _Growing:
    """A task whose agents count down what the user says, and then wait for its next word."""

    def __init__(self, stage: Stage, turns: int) -> None:
        team = team_of("first", "second", prompt="count", collaboration_model=COUNT)
        self.task: Task = stage.orchestrator.run(team, str(turns))
        self.steps = turns + 1
        await_steps(self.task, self.steps)

    def grow(self, turns: int) -> list[float]:
        """Go on for so many turns: the times from one to the next."""
        self.task.send(str(turns))
        before = self.steps
        self.steps += turns + 1
        await_steps(self.task, self.steps)
        return turn_times(self.task.history()[before:])


def measure(stage: Stage, size: Size) -> Iterator[Result]:
    """The young task and the old one by turns, in as many blocks as there are rounds."""
    old, young = _Growing(stage, size.of(OLD, 30) - 1), _Growing(stage, YOUNG - 1)
    block = max(3, size.of(SPAN) // (size.rounds * SLICES))
    measures: dict[str, Measure] = {
        f"turn from step {old.steps}": lambda number: old.grow(block) if number else (),
        f"turn from step {young.steps}": lambda number: young.grow(block) if number else (),
    }
    late, early = in_turn(measures, size.rounds, SLICES)
    own = Lane("the old task's own, before", (tuple(turn_times(old.task.history()[YOUNG : YOUNG + SPAN])),))
    yield Result(f"history_length, {old.steps} steps", (late, early, own), (ratio(late, early),))
