"""The result of a drill, its exit code, and its reports."""

import io
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import pytest

from roboco import UsageError
from roboco.cli.terminal.screen import Screen
from roboco.lab.drill.faults import FAULTS, select
from roboco.lab.drill.promises import PROMISES
from roboco.lab.drill.report import DrillReport, render_html
from roboco.lab.drill.result import DrillResult, FaultOutcome, FaultResult
from roboco.lab.drill.scene import Baseline
from roboco.lab.drill.weaknesses import Weakness

HOSTILE = "<script>alert('1')</script>\" onload=x \x1b[31m\u202e&amp;"
WEAKNESS = Weakness("no_timeout", "tools[0]", "no timeout", "write one")


def fault(outcome: FaultOutcome, **fields: Any) -> FaultResult:
    hit = "it struck" if outcome in ("held", "broken") else ""
    kept = {"P1": outcome == "held"} if hit else {}
    wrong = ["P1: step 1 is lost"] if outcome == "broken" else []
    named: dict[str, Any] = {"name": "x", "group": "workers", "text": "a fault", "hit": hit}
    named |= {"broken": wrong, "promises": kept}
    return FaultResult(outcome=outcome, **(named | fields))


def result(*faults: FaultResult, **fields: Any) -> DrillResult:
    return DrillResult("team", 1, "scripted", faults=list(faults), **fields)


@pytest.mark.parametrize(
    ("found", "fails", "fails_strictly"),
    [
        (result(fault("held")), False, False),
        (result(fault("held"), fault("does not apply")), False, False),
        (result(fault("held"), fault("broken")), True, True),
        (result(fault("not hit")), True, True),
        (result(fault("held", hit="")), True, True),
        (result(), True, True),
        (result(fault("held"), fault("not hit")), False, True),
        (result(fault("held"), fault("not run")), False, True),
        (result(fault("held"), weaknesses=[WEAKNESS]), False, True),
        (result(fault("held"), error="a worker does not start"), True, True),
    ],
)
def test_a_drill_fails_if_a_promise_is_broken_or_nothing_is_shown(
    found: DrillResult, fails: bool, fails_strictly: bool
) -> None:
    assert (found.failed(strict=False), found.failed(strict=True)) == (fails, fails_strictly)


def text_of(found: DrillResult, strict: bool = False) -> str:
    output = io.StringIO()
    report = DrillReport(Screen(output), len(found.faults))
    for one in found.faults:
        report.result(one)
    report.summary(found, strict)
    return output.getvalue()


def test_the_text_never_shows_a_fault_that_did_not_strike_as_passed() -> None:
    text = text_of(result(fault("held"), fault("not hit", text="a late kill", why="it ended before")))
    rows = text.splitlines()
    assert rows[0].startswith("✓ ")
    assert rows[2].startswith("○ not hit ")
    assert rows[2].index("a late kill") == rows[0].index("a fault") == rows[3].index("it ended before")
    assert "no promise was broken; 1 of 2 faults struck; P2, P3, " in text
    assert "P10 not checked (0 s, 1 not hit)" in text


@pytest.mark.parametrize(
    ("found", "colour"),
    [
        (result(fault("held", promises=dict.fromkeys(PROMISES, True))), "#008000"),
        (result(fault("held", promises=dict.fromkeys(PROMISES, True)), interrupted=True), "#808000"),
        (result(fault("held", promises=dict.fromkeys(PROMISES, True)), fault("not hit")), "#808000"),
        (result(fault("held")), "#808000"),
        (result(fault("broken")), "#800000"),
    ],
)
def test_the_verdict_is_green_only_if_all_was_shown(found: DrillResult, colour: str) -> None:
    verdict = render_html(found, strict=False).splitlines()
    assert f"color: {colour}" in next(line for line in verdict if " struck" in line)


class Page(HTMLParser):
    """The elements of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)


def test_the_page_escapes_everything_and_loads_nothing() -> None:
    one = fault(
        "broken",
        text=HOSTILE,
        why=HOSTILE,
        effects=[HOSTILE],
        status=HOSTILE,
        broken=[HOSTILE],
        promises={"P1": False},
        executions={HOSTILE: 1},
    )
    weakness = Weakness("x", HOSTILE, HOSTILE, HOSTILE)
    found = DrillResult(HOSTILE, 1, HOSTILE, [HOSTILE], [HOSTILE], [HOSTILE], [one], [weakness], True, HOSTILE)
    text = render_html(found, strict=True)
    page = Page(text)
    assert "script" not in page.tags
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "http" not in text


def test_faults_are_selected_by_name_pattern_and_group() -> None:
    assert select(()) == FAULTS
    assert len({one.name for one in FAULTS}) == len(FAULTS)
    assert [one.name for one in select(("redis-emptied",))] == ["redis-emptied"]
    assert {one.group for one in select(("redis", "model-4*"))} == {"redis", "model"}
    with pytest.raises(UsageError, match="no fault matches 'nothing'"):
        select(("redis", "nothing"))


@pytest.mark.parametrize(
    ("name", "baseline", "reason"),
    [
        ("tool-dies", Baseline(calls=1), "no tool that has a stand-in"),
        ("tools-kill-outcome", Baseline(), "the team called no tool"),
        ("store-late", Baseline(), "the store is a folder here"),
        ("model-silent", Baseline(), "only the scripted model"),
        ("agents-kill-mid-turn", Baseline(), ""),
    ],
)
def test_a_fault_says_why_it_does_not_apply(name: str, baseline: Baseline, reason: str) -> None:
    [one] = select((name,))
    why = one.why_not(replace(baseline, without_store="no S3 server is installed", real_model=True))
    assert reason in why
    assert bool(reason) == bool(why)
