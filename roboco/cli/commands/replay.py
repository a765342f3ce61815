"""roboco replay: whether a task's history follows from its team, or where another team would choose otherwise."""

import json
import sys
from collections import Counter
from collections.abc import Sequence

import click

from roboco.cli.commands.past import ledger_of
from roboco.cli.terminal import options
from roboco.cli.terminal.sanitize import one_line
from roboco.cli.terminal.screen import Screen
from roboco.domain.replay.replay import Position, Verdict, replay

_STYLES: dict[Verdict, str] = {
    "same": "green",
    "other rule": "yellow",
    "differs": "red",
    "depends on the moment": "cyan",
}
_WIDE = 160
"""How many characters of a choice are shown."""


@click.command("replay")
@click.argument("task_id")
@click.option("--team", metavar="TEAM", help="Another team: the path of its file, or its name in ROBOCO_TEAMS_DIR.")
@options.as_json
def replay_task(task_id: str, team: str | None, as_json: bool) -> int:
    """Decide a recorded task again and compare.

    No model or tool is asked, and nothing is written. With --team it shows where that team would choose otherwise, each
    position judged on what was recorded before it. The exit code is 1 if a choice differs.
    """
    with ledger_of(task_id) as ledger:
        past = ledger.past(with_router=team is None)
        other = None if team is None else ledger.team(team)
        positions = replay(past, other) if other is None else replay(past, other, ledger.router(other))
    differs = [position for position in positions if position.verdict == "differs"]
    if as_json:
        record = {
            "task_id": task_id,
            "team": (other or past.team).name,
            "choices": [position.record() for position in positions],
            "verdicts": dict(Counter(position.verdict for position in positions)),
            "same": not differs,
        }
        click.echo(json.dumps(record, indent=2))
    else:
        screen = Screen(sys.stdout)
        for position in positions:
            _show(screen, position)
        screen.line((counted(positions), "bold red" if differs else "bold green"))
    return 1 if differs else 0


def counted(positions: Sequence[Position]) -> str:
    """How many choices are the same, in words; those that depend on the moment are not among them."""
    count = Counter(position.verdict for position in positions)
    judged = len(positions) - count["depends on the moment"]
    told = [f"{judged - count['differs']} of {judged} choices are the same"]
    if count["other rule"]:
        told.append(f"{count['other rule']} of them by another rule")
    if differing := [_place(position) for position in positions if position.verdict == "differs"]:
        told.append(f"different: {', '.join(differing)}")
    if count["depends on the moment"]:
        told.append(f"{count['depends on the moment']} depend{_s(count['depends on the moment'])} on the moment")
    return "; ".join(told)


def _s(number: int) -> str:
    return "s" if number == 1 else ""


def _place(position: Position) -> str:
    return "the end" if position.seq is None else f"step {position.seq}"


def _show(screen: Screen, position: Position) -> None:
    style = _STYLES[position.verdict]
    place = f"{_place(position):>8}  "
    screen.line((place, "dim"), (f"{position.verdict}: ", style), one_line(position.recorded, _WIDE))
    if position.verdict != "same":
        screen.line((f"{'':>10}chosen now: ", "dim"), one_line(position.chosen, _WIDE))
    if position.note:
        screen.line((f"{'':>10}{one_line(position.note, _WIDE)}", "dim"))
