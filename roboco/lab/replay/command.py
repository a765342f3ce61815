"""roboco replay: decide a recorded task again, by its own team or another one, and compare each decision."""

import sys
from collections import Counter
from collections.abc import Sequence
from typing import Final

import click

from roboco.cli.terminal import options
from roboco.cli.terminal.exit import FAILED, SUCCESS
from roboco.cli.terminal.json_output import print_json
from roboco.cli.terminal.sanitize import one_line
from roboco.cli.terminal.screen import Screen
from roboco.client.orchestrator import Orchestrator
from roboco.lab.replay.replay import Comparison, ReplayStep, replay
from roboco.lab.replay.stored_record import router_of, stored_record
from roboco.settings import load_settings

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
    with Orchestrator(load_settings()) as orchestrator:
        past = stored_record(orchestrator, task_id, own_router=team is None)
        other = None if team is None else orchestrator.team(team)
        positions = replay(past) if other is None else replay(past, other, router_of(orchestrator, other))
    differs = [position for position in positions if position.comparison == "differs"]
    if as_json:
        record = {
            "task_id": task_id,
            "team": (other or past.team).name,
            "choices": positions,
            "verdicts": dict(Counter(position.comparison for position in positions)),
            "same": not differs,
        }
        print_json(record)
    else:
        screen = Screen(sys.stdout)
        for position in positions:
            _print_position(screen, position)
        screen.line((_summary_line(positions), "bold red" if differs else "bold green"))
    return FAILED if differs else SUCCESS


def _summary_line(positions: Sequence[ReplayStep]) -> str:
    """Return how many choices are the same, as a sentence; it leaves out those that the history does not determine."""
    count = Counter(position.comparison for position in positions)
    undetermined = count["depends on the moment"]
    judged = len(positions) - undetermined
    parts = [f"{judged - count['differs']} of {judged} choices are the same"]
    if count["other rule"]:
        parts.append(f"{count['other rule']} of them by another rule")
    if differing := [_position_name(position) for position in positions if position.comparison == "differs"]:
        parts.append(f"different: {', '.join(differing)}")
    if undetermined:
        parts.append(f"{undetermined} {'depends' if undetermined == 1 else 'depend'} on the moment")
    return "; ".join(parts)


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
