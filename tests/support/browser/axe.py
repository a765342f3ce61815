"""Accessibility of a page, by the rules of axe-core for WCAG 2.2 AA and its best practices."""

from typing import Any, Final

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

RULES: Final = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


def violations(page: Page, *, without: tuple[str, ...] = ()) -> list[str]:
    """Return a line for each violated rule with the elements, except the rules in `without`."""
    options: dict[str, Any] = {
        "runOnly": {"type": "tag", "values": RULES},
        "rules": {rule: {"enabled": False} for rule in without},
        "resultTypes": ["violations"],
    }
    response: dict[str, Any] = Axe().run(page, options=options).response
    return [_line(found) for found in response["violations"]]


def assert_accessible(page: Page, *, without: tuple[str, ...] = ()) -> None:
    """Assert that axe finds no violation."""
    found = violations(page, without=without)
    assert not found, "axe finds:\n" + "\n".join(found)


def _line(found: dict[str, Any]) -> str:
    nodes = "; ".join(f"{' '.join(map(str, node['target']))} {node['html'][:120]}" for node in found["nodes"][:5])
    return f"{found['id']} ({found['impact']}): {found['help']}: {nodes}"
