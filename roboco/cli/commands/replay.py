"""roboco replay: decide a recorded task again, by its own team or another one, and compare each decision."""

import sys
from collections import Counter
from collections.abc import Sequence
from typing import Final

import click

from roboco.cli.commands.task_replay import task_replay
from roboco.cli.terminal import options
from roboco.cli.terminal.exit import FAILED, SUCCESS
from roboco.cli.terminal.json_output import print_json
from roboco.cli.terminal.sanitize import one_line
from roboco.cli.terminal.screen import Screen
from roboco.domain.replay.replay import Comparison, ReplayStep, replay

_STYLES: dict[Comparison, str] = {
    "same": "green",
    "other rule": "yellow",
    "differs": "red",
    "depends on the moment": "cyan",
}
MAX_CHOICE_CHARS: Final = 160


@click.command("replay")
@click.argument("task_id")
@click.option("--team", metavar="TEAM", help="Another team: the path of its file, or its name in ROBOCO_TEAMS_DIR.")
@options.as_json
def replay_task(task_id: str, team: str | None, as_json: bool) -> int:
    """Decide a recorded task again and compare.

    The command calls no model and no tool, and writes nothing. With --team it shows the positions at which that team
    would choose otherwise, each decided from the record before it. The exit code is 1 if a choice differs.
    """
    with task_replay(task_id) as recorded:
        past = recorded.recorded(with_router=team is None)
        other = None if team is None else recorded.team(team)
        positions = replay(past, other) if other is None else replay(past, other, recorded.router(other))
    differs = [position for position in positions if position.comparison == "differs"]
    if as_json:
        record = {
            "task_id": task_id,
            "team": (other or past.team).name,
            "choices": [position.record() for position in positions],
            "verdicts": dict(Counter(position.comparison for position in positions)),
            "same": not differs,
        }
        print_json(record)
    else:
        screen = Screen(sys.stdout)
        for position in positions:
            _print_position(screen, position)
        screen.line((summary_line(positions), "bold red" if differs else "bold green"))
    return FAILED if differs else SUCCESS


def summary_line(positions: Sequence[ReplayStep]) -> str:
    """Return how many choices are the same, as a sentence; it leaves out those that the history does not determine."""
    count = Counter(position.comparison for position in positions)
    judged = len(positions) - count["depends on the moment"]
    parts = [f"{judged - count['differs']} of {judged} choices are the same"]
    if count["other rule"]:
        parts.append(f"{count['other rule']} of them by another rule")
    if differing := [_position_name(position) for position in positions if position.comparison == "differs"]:
        parts.append(f"different: {', '.join(differing)}")
    if count["depends on the moment"]:
        parts.append(
            f"{count['depends on the moment']} depend{_plural_suffix(count['depends on the moment'])} on the moment"
        )
    return "; ".join(parts)


def _plural_suffix(number: int) -> str:
    return "s" if number == 1 else ""


def _position_name(position: ReplayStep) -> str:
    return "the end" if position.seq is None else f"step {position.seq}"


def _print_position(screen: Screen, position: ReplayStep) -> None:
    style = _STYLES[position.comparison]
    place = f"{_position_name(position):>8}  "
    screen.line((place, "dim"), (f"{position.comparison}: ", style), one_line(position.recorded, MAX_CHOICE_CHARS))
    if position.comparison != "same":
        screen.line((f"{'':>10}chosen now: ", "dim"), one_line(position.chosen, MAX_CHOICE_CHARS))
    if position.note:
        screen.line((f"{'':>10}{one_line(position.note, MAX_CHOICE_CHARS)}", "dim"))
