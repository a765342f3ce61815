"""Accessibility of a page, by the rules of axe-core for WCAG 2.2 AA and its best practices."""

from typing import Any, Final

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

RULES: Final = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


def assert_accessible(page: Page) -> None:
    """Assert that axe finds no violation. The error has a line for each violated rule with the elements."""
    options: dict[str, Any] = {"runOnly": {"type": "tag", "values": RULES}, "resultTypes": ["violations"]}
    response: dict[str, Any] = Axe().run(page, options=options).response
    found = [_line(one) for one in response["violations"]]
    assert not found, "axe finds:\n" + "\n".join(found)


def _line(found: dict[str, Any]) -> str:
    nodes = "; ".join(f"{' '.join(map(str, node['target']))} {node['html'][:120]}" for node in found["nodes"][:5])
    return f"{found['id']} ({found['impact']}): {found['help']}: {nodes}"
