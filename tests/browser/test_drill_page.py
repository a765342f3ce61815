"""The page of a drill in a browser: nothing of it is beyond a narrow screen, and its policy allows its style."""

from pathlib import Path

import pytest

from roboco.lab.drill.report import render_html
from roboco.lab.drill.result import DrillResult, FaultResult
from roboco.lab.drill.weaknesses import Weakness
from tests.support.browser.chromium import start_browser


@pytest.mark.parametrize("width", [360, 1200])
def test_the_page_of_a_drill_fits_the_screen(tmp_path: Path, width: int) -> None:
    effects = ["another worker took work 2.9 s later", f"pay answered with an error: {'x' * 400}"]
    struck = FaultResult(
        "agents-kill-mid-turn",
        "workers",
        "the agents worker is killed (SIGKILL) in the middle of a turn",
        "broken",
        hit="process 1 was killed",
        status="completed",
        seconds=47.9,
        effects=effects,
        executions={"pay": 2},
        irreversible_calls={"pay": 1},
        broken=["P4: tool 'pay': call 1 ran 2 times"],
        promises={"P4": False},
    )
    weakness = Weakness("no_verify", "tools[0] a_tool_with_a_long_name", "no `verify`", "write @tool(verify=...)")
    found = DrillResult("shop", 1, "scripted", ["pay"], faults=[struck], weaknesses=[weakness])
    page_file = tmp_path / "drill.html"
    page_file.write_text(render_html(found, strict=False))
    with start_browser() as browser:
        page = browser.new_page(viewport={"width": width, "height": 800})
        console: list[str] = []
        page.on("console", lambda message: console.append(message.text))
        page.goto(page_file.as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.locator("p", has_text="process 1 was killed").is_visible()
        assert console == []
