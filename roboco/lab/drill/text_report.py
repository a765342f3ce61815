"""TextReport: the drill on a terminal or in a log: a line for each fault as it ends, and a summary."""

import time

from roboco.cli.terminal.format import counted
from roboco.cli.terminal.screen import Screen, TextSpan
from roboco.lab.drill.promises import PROMISES
from roboco.lab.drill.result import DrillResult, FaultOutcome, FaultResult

_MARKS: dict[FaultOutcome, tuple[str, str]] = {
    "held": ("✓", "green"),
    "broken": ("✗", "bold red"),
    "not hit": ("○", "yellow"),
    "does not apply": ("·", "dim"),
    "not run": ("○", "yellow"),
}


class TextReport:
    """Prints progress and results."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._running = ""
        self._began = time.monotonic()
        self.total = 0

    def note(self, text: str) -> None:
        """Print a remark."""
        self._screen.paragraph((text, "dim"))

    def start(self, text: str, number: int) -> None:
        """Show the run that begins, on a terminal."""
        self._running, self._began = f"{number}/{self.total} {text}", time.monotonic()
        self.tick()

    def tick(self) -> None:
        """Update the line of the running fault."""
        if self._running:
            self._screen.status(f"  {self._running} … {time.monotonic() - self._began:.0f} s")

    def result(self, fault: FaultResult) -> None:
        """Print the result of a fault."""
        self._running = ""
        self._screen.status("")
        mark, style = _MARKS[fault.outcome]
        spans: list[TextSpan] = [(f"{mark} ", style), fault.text]
        if fault.outcome in ("held", "broken"):
            spans.append((f"  {fault.status}, {fault.seconds:.1f} s", "dim"))
        else:
            spans.append((f"  {fault.outcome}: {fault.why}", style))
        self._screen.paragraph(*spans, indent=2)
        for effect in fault.effects if fault.outcome in ("held", "broken") else ():
            self._screen.paragraph((f"    {effect}", "dim"), indent=4)
        for broken in fault.broken:
            self._screen.paragraph((f"    broken {broken}", "red"), indent=4)

    def summary(self, result: DrillResult, strict: bool) -> None:
        """Print what the drill has shown."""
        self._running = ""
        self._screen.status("")
        self._screen.blank()
        self._screen.line(("promises", "bold"))
        for name, (kept, checked) in result.promises().items():
            if not checked:
                self._screen.paragraph((f"  ○ {name:<4} {PROMISES[name]}: not checked", "dim"), indent=9)
            elif kept == checked:
                self._screen.paragraph(
                    ("  ✓ ", "green"),
                    f"{name:<4} {PROMISES[name]}",
                    (f": {counted(kept, 'run')}", "dim"),
                    indent=9,
                )
            else:
                broken = f"  ✗ {name:<4} {PROMISES[name]}: broken in {checked - kept} of {checked} runs"
                self._screen.paragraph((broken, "bold red"), indent=9)
        self._print_executions(result)
        self._print_weaknesses(result)
        self._screen.blank()
        self._screen.paragraph((_verdict(result, strict), "bold red" if result.failed(strict) else "bold green"))

    def _print_executions(self, result: DrillResult) -> None:
        tools = sorted({tool for fault in result.faults for tool in fault.executions})
        if tools:
            self._screen.blank()
            self._screen.line(("irreversible tools", "bold"))
        for tool in tools:
            ran = sum(fault.executions.get(tool, 0) for fault in result.faults)
            calls = sum(fault.irreversible_calls.get(tool, 0) for fault in result.faults)
            times = f"{counted(ran, 'execution')} of {counted(calls, 'call')}" + (
                ": none ran twice" if ran == calls else ""
            )
            self._screen.line("  ", (tool, "bold"), f" {times}")

    def _print_weaknesses(self, result: DrillResult) -> None:
        self._screen.blank()
        self._screen.line(("weaknesses of the team", "bold"))
        for one in result.weaknesses:
            self._screen.paragraph(
                ("  ! ", "yellow"), (one.place, "bold"), f": {one.text}. ", (one.remedy, "dim"), indent=4
            )
        if not result.weaknesses:
            self._screen.line(("  none found", "dim"))


def _verdict(result: DrillResult, strict: bool) -> str:
    """Return the last line: how many faults struck, and what follows for the exit code."""
    if result.error:
        return f"the drill ended early: {result.error}"
    parts = [f"{counted(result.struck, 'fault')} struck in {result.seconds:.0f} s"]
    parts += [f"{result.count(name)} {text}" for name, text in _NOT_STRUCK.items() if result.count(name)]
    parts += [counted(len(result.weaknesses), "weakness", "weaknesses")] if result.weaknesses else []
    parts += ["interrupted, so this is not all"] if result.interrupted else []
    broken = result.count("broken")
    if broken:
        verdict = f"a promise was broken in {counted(broken, 'run')}"
    elif not result.struck:
        verdict = "no fault struck, so nothing is shown"
    else:
        verdict = "all promises held so far" if result.interrupted else "all promises held"
    strictly = "; --strict counts weaknesses and faults that did not strike" if strict and result.failed(strict) else ""
    return f"{verdict} ({', '.join(parts)}){strictly}"


_NOT_STRUCK: dict[FaultOutcome, str] = {
    "not hit": "not hit",
    "not run": "not run",
    "does not apply": "not applicable",
}
