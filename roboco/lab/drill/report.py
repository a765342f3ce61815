"""The report of a drill: lines for a terminal or a log, and the same lines as one HTML file without scripts."""

import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from rich.console import Console
from rich.text import Text

from roboco.cli.terminal.format import age, counted
from roboco.cli.terminal.screen import Screen, TextSpan, escape_span
from roboco.lab.drill.promises import PROMISES
from roboco.lab.drill.result import DrillResult, FaultOutcome, FaultResult

ReportLine = tuple[int, list[TextSpan]]
"""The columns by which further lines of a paragraph are indented, and its spans. Without spans it is an empty line."""

_MARKS: Final[dict[FaultOutcome, tuple[str, str]]] = {
    "held": ("✓", "green"),
    "broken": ("✗", "bold red"),
    "not hit": ("○", "yellow"),
    "does not apply": ("·", "dim"),
    "not run": ("○", "yellow"),
}
_NOT_STRUCK: Final[dict[FaultOutcome, str]] = {
    "not hit": "not hit",
    "not run": "not run",
    "does not apply": "not applicable",
}
HTML_COLUMNS: Final = 120
_TEXT_COLUMN: Final = 24
"""The column of a fault's text, after its mark, outcome and time."""


class DrillReport:
    """Prints progress and results."""

    def __init__(self, screen: Screen, total: int) -> None:
        self._screen = screen
        self._total = total
        self._running = ""
        self._began = self._first = time.monotonic()
        self._number = 0

    def note(self, text: str) -> None:
        """Print a remark."""
        self._screen.paragraph((text, "dim"))

    def start(self, text: str, number: int) -> None:
        """Show the run that begins, on a terminal."""
        self._running, self._began, self._number = f"{number}/{self._total} {text}", time.monotonic(), number
        self.tick()

    def tick(self) -> None:
        """Update the line of the running fault, with an estimate of the time left."""
        if self._running:
            now, done = time.monotonic(), self._number - 1
            left = f", about {age((now - self._first) / done * (self._total - done))} left" if done else ""
            self._screen.status(f"  {self._running} … {now - self._began:.0f} s{left}")

    def result(self, fault: FaultResult) -> None:
        """Print the result of a fault."""
        self._print(_fault_lines(fault))

    def summary(self, result: DrillResult, strict: bool) -> None:
        """Print what the drill has shown."""
        self._print([*_summary_lines(result), (0, []), _verdict(result, strict)])

    def _print(self, lines: Iterable[ReportLine]) -> None:
        self._running = ""
        self._screen.status("")
        for indent, spans in lines:
            self._screen.paragraph(*spans, indent=indent)


def render_html(result: DrillResult, strict: bool) -> str:
    """Return the report as one page without scripts. Every text is escaped."""
    lines: list[ReportLine] = [
        (0, [(f"Drill of team {result.team}", "bold")]),
        _verdict(result, strict),
        _dim(0, f"model: {result.model} · seed: {result.seed}"),
        *(_dim(0, note) for note in tool_notes(result)),
        (0, []),
        *(line for fault in result.faults for line in _fault_lines(fault)),
        *_summary_lines(result),
    ]
    with open(os.devnull, "w") as nowhere:
        console = Console(file=nowhere, record=True, width=HTML_COLUMNS, highlight=False, markup=False, emoji=False)
        for _, spans in lines:
            console.print(Text.assemble(*map(escape_span, spans)))
        return console.export_html(inline_styles=True)


def tool_notes(result: DrillResult) -> list[str]:
    """Return what happens with the team's tools, for people."""
    notes = list(result.notes)
    if result.stand_ins:
        notes.append(f"stand-ins, without effects, run in place of: {', '.join(result.stand_ins)}")
    if result.real_tools:
        notes.append(f"these tools really run, perhaps again and again: {', '.join(result.real_tools)}")
    return notes


def _dim(indent: int, text: str) -> ReportLine:
    return indent, [(text, "dim")]


def _fault_lines(fault: FaultResult) -> Iterator[ReportLine]:
    mark, style = _MARKS[fault.outcome]
    ran = fault.outcome in ("held", "broken")
    found = (fault.status, f"{fault.seconds:.1f} s") if ran else (fault.outcome, "")
    yield _TEXT_COLUMN, [(f"{mark} ", style), (f"{found[0]:<14}{found[1]:>6}  ", "dim"), fault.text]
    for effect in (fault.hit, *fault.effects) if ran else (fault.why,):
        if effect:
            yield _dim(_TEXT_COLUMN, f"{'':{_TEXT_COLUMN}}{effect}")
    for broken in fault.broken:
        yield _TEXT_COLUMN, [(f"{'':{_TEXT_COLUMN}}broken {broken}", "red")]


def _summary_lines(result: DrillResult) -> Iterator[ReportLine]:
    yield from _heading("promises")
    for name, (kept, checked) in result.promises().items():
        text = f"{name:<4} {PROMISES[name]}"
        if not checked:
            yield _dim(9, f"  ○ {text}: not checked")
        elif kept == checked:
            yield 9, [("  ✓ ", "green"), text, (f": {counted(kept, 'run')}", "dim")]
        else:
            yield 9, [(f"  ✗ {text}: broken in {checked - kept} of {checked} runs", "bold red")]
    tools = sorted({tool for fault in result.faults for tool in fault.executions})
    if tools:
        yield from _heading("irreversible tools")
    for tool in tools:
        ran = sum(fault.executions.get(tool, 0) for fault in result.faults)
        calls = sum(fault.irreversible_calls.get(tool, 0) for fault in result.faults)
        once = ": none ran twice" if ran == calls else ""
        yield 4, ["  ", (tool, "bold"), f" {counted(ran, 'execution')} of {counted(calls, 'call')}{once}"]
    yield from _repetitions(result)
    yield from _heading("weaknesses of the team")
    for one in result.weaknesses:
        yield 4, [("  ! ", "yellow"), (one.place, "bold"), f": {one.text}. ", (one.remedy, "dim")]
    if not result.weaknesses:
        yield _dim(4, "  none found")


def _repetitions(result: DrillResult) -> Iterator[ReportLine]:
    again = sum((Counter(fault.repeated) for fault in result.faults), Counter[str]())
    if again:
        yield from _heading("tools that ran twice: is that harmless?")
    for tool, calls in sorted(again.items()):
        remedy = "if a second run changes anything, declare effect: irreversible"
        found = f" ran again for {counted(calls, 'call')}, as its declared effect allows. "
        yield 4, ["  ", (tool, "bold"), found, (remedy, "dim")]


def _heading(text: str) -> Iterator[ReportLine]:
    yield 0, []
    yield 0, [(text, "bold")]


def _verdict(result: DrillResult, strict: bool) -> ReportLine:
    """Return how many faults struck, and what follows for the exit code."""
    whole = result.struck == result.applicable and not result.unchecked and not result.interrupted
    style = "bold red" if result.failed(strict) else "bold green" if whole else "bold yellow"
    return 0, [(_verdict_text(result, strict), style)]


def _verdict_text(result: DrillResult, strict: bool) -> str:
    if result.error:
        return f"the drill ended early: {result.error}"
    parts = [f"{result.seconds:.0f} s"]
    parts += [f"{result.count(name)} {text}" for name, text in _NOT_STRUCK.items() if result.count(name)]
    parts += [counted(len(result.weaknesses), "weakness", "weaknesses")] if result.weaknesses else []
    parts += ["interrupted, so this is not all"] if result.interrupted else []
    broken = result.count("broken")
    if broken:
        verdict = f"a promise was broken in {counted(broken, 'run')}"
    elif not result.struck:
        verdict = "no fault struck, so nothing is shown"
    else:
        verdict = "no promise was broken"
    verdict += f"; {result.struck} of {counted(result.applicable, 'fault')} struck"
    verdict += f"; {', '.join(result.unchecked)} not checked" if result.unchecked else ""
    strictly = "; --strict counts weaknesses and faults that did not strike" if strict and result.failed(strict) else ""
    return f"{verdict} ({', '.join(parts)}){strictly}"
