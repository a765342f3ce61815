"""html_report: the drill as one HTML file without scripts and links. Every text is escaped."""

import base64
import hashlib
from collections.abc import Iterable, Iterator
from html import escape
from itertools import starmap
from typing import Final

from roboco.cli.terminal.sanitize import escape_invisible
from roboco.lab.drill.promises import PROMISES
from roboco.lab.drill.result import DrillResult, FaultResult

_STYLE: Final = """
:root{color-scheme:light dark;--line:#8886;--ok:#177a3c;--bad:#b3261e;--warn:#8a6100}
@media(prefers-color-scheme:dark){:root{--ok:#6fd08c;--bad:#ff8a80;--warn:#f0c060}}
body{font:15px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.5rem}h2{font-size:1.15rem;margin-top:2rem}
table{border-collapse:collapse;width:100%}
th,td{text-align:left;vertical-align:top;padding:.35rem .6rem;border-bottom:1px solid var(--line)}
.held{color:var(--ok)}.broken{color:var(--bad);font-weight:600}.not-hit,.not-run,.weak{color:var(--warn)}
td{overflow-wrap:anywhere}ul{margin:.2rem 0;padding-left:1.2rem}.number{white-space:nowrap}
@media(max-width:45rem){thead{display:none}table,tbody,tr,td{display:block}
tbody tr{padding:.5rem 0;border-bottom:1px solid var(--line)}
td{border:0;padding:.1rem 0}td:before{content:attr(data-head) ": ";opacity:.7}td:first-child:before{content:""}}
"""
_HASH: Final = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
_POLICY: Final = f"default-src 'none'; style-src 'sha256-{_HASH}'; base-uri 'none'; form-action 'none'"


def render_html(result: DrillResult, strict: bool) -> str:
    """Return the page."""
    title = f"Drill of team {result.team}"
    verdict = "broken" if result.failed(strict) else "weak" if result.interrupted else "held"
    held = "All promises held so far." if result.interrupted else "All promises held."
    summary = "The drill failed." if result.failed(strict) else held
    facts = [
        f"model: {result.model}",
        f"seed: {result.seed}",
        f"{result.seconds:.0f} s",
        f"{result.struck} faults struck",
        f"{result.count('not hit')} were not hit",
        f"{result.count('not run')} were not run",
        f"{result.count('does not apply')} do not apply",
    ]
    body = [
        f"<h1>{_text(title)}</h1>",
        f'<p class="{verdict}">{summary}</p>',
        f"<p>{_text(' · '.join(facts))}</p>",
        *(f'<p class="broken">{_text(one)}</p>' for one in _troubles(result)),
        "<h2>Faults</h2>",
        _table(("fault", "outcome", "status", "seconds", "what happened"), map(_fault_row, result.faults)),
        "<h2>Promises</h2>",
        _table(("promise", "held", "meaning"), _promise_rows(result)),
        "<h2>Irreversible tools</h2>",
        _table(("tool", "fault", "calls", "executions"), _execution_rows(result)),
        "<h2>Weaknesses of the team</h2>",
        _table(("place", "weakness", "remedy"), _weakness_rows(result)),
        "<h2>Tools</h2>",
        _list([f"stand-in: {name}" for name in result.stand_ins] + [f"real: {name}" for name in result.real_tools]),
        _list(result.notes),
    ]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{_text(title)}</title><style>{_STYLE}</style></head>\n<body>\n"
        + "\n".join(body)
        + "\n</body></html>\n"
    )


def _troubles(result: DrillResult) -> Iterator[str]:
    if result.error:
        yield f"The drill ended early: {result.error}"
    if result.interrupted:
        yield "The drill was interrupted, so this is not all."


def _fault_row(fault: FaultResult) -> tuple[str, ...]:
    happened = [text for text in (fault.why, fault.hit) if text] + list(fault.effects)
    happened += [f"broken {one}" for one in fault.broken]
    outcome = f'<span class="{fault.outcome.replace(" ", "-")}">{_text(fault.outcome)}</span>'
    seconds = f"{fault.seconds:.1f}" if fault.seconds else ""
    return (_text(fault.text), outcome, _text(fault.status), f'<span class="number">{seconds}</span>', _list(happened))


def _promise_rows(result: DrillResult) -> Iterator[tuple[str, ...]]:
    for name, (kept, checked) in result.promises().items():
        style = "not-run" if not checked else "held" if kept == checked else "broken"
        shown = f"{kept} of {checked} runs" if checked else "not checked"
        yield name, f'<span class="{style}">{shown}</span>', _text(PROMISES[name])


def _execution_rows(result: DrillResult) -> Iterator[tuple[str, ...]]:
    for fault in result.faults:
        for tool, count in fault.executions.items():
            yield _text(tool), _text(fault.text), str(fault.irreversible_calls.get(tool, 0)), str(count)


def _weakness_rows(result: DrillResult) -> Iterator[tuple[str, ...]]:
    for one in result.weaknesses:
        yield _text(one.place), f'<span class="weak">{_text(one.text)}</span>', _text(one.remedy)


def _table(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """Return a table of cells, which are HTML already, or a word if there are no rows."""
    lines = [f"<tr>{''.join(starmap(_cell, zip(heads, row, strict=True)))}</tr>" for row in rows]
    head = "".join(f'<th scope="col">{name}</th>' for name in heads)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>" if lines else "<p>none</p>"


def _cell(head: str, cell: str) -> str:
    return f'<td data-head="{head}">{cell}</td>'


def _list(texts: Iterable[str]) -> str:
    items = "".join(f"<li>{_text(text)}</li>" for text in texts)
    return f"<ul>{items}</ul>" if items else ""


def _text(text: str) -> str:
    return escape(escape_invisible(text), quote=True)
