"""The watch of a browser's context: errors of its pages, violations of their policy, and requests to other hosts.

page ─► console, uncaught errors ───────────────────────────► problems
     ─► request of a page ──────────── another origin ──────► problems
A worker of the page is bound by its policy, and Chromium finds no host but this machine.
"""

import re
from typing import Any, Final

from playwright.sync_api import BrowserContext

OUTAGE: Final = (r"net::ERR_", r"status of (502|503|504)")
"""Patterns of console errors that any request causes while the gateway does not run, or cannot reach its servers."""
LOCAL_SCHEMES: Final = ("blob:", "data:")


class PageWatch:
    """The problems of all pages of a context, as texts."""

    def __init__(self, context: BrowserContext, origin: str) -> None:
        self._origin = origin.rstrip("/")
        self._problems: list[str] = []
        self._allowed: list[str] = []
        context.on("console", self._on_console)
        context.on("weberror", lambda error: self._problems.append(f"uncaught: {error.error}"))
        context.on("request", self._on_request)
        context.on("dialog", self._on_dialog)

    def allow(self, *patterns: str) -> None:
        """Ignore the problems of this context in which one of these patterns is found, such as those of `OUTAGE`."""
        self._allowed += patterns

    @property
    def problems(self) -> list[str]:
        """All problems so far, except the allowed ones."""
        return [
            problem for problem in self._problems if not any(re.search(pattern, problem) for pattern in self._allowed)
        ]

    def check(self) -> None:
        """Raise AssertionError with the problems, if there are any."""
        assert not self.problems, "the page has problems:\n" + "\n".join(self.problems)

    def _on_console(self, message: Any) -> None:
        if message.type in ("error", "warning", "assert"):
            self._problems.append(f"console {message.type}: {message.text} ({message.location.get('url', '')})")

    def _on_request(self, request: Any) -> None:
        if request.url.startswith(LOCAL_SCHEMES) or f"{request.url}/".startswith(f"{self._origin}/"):
            return
        self._problems.append(f"request to another origin: {request.method} {request.url}")

    def _on_dialog(self, dialog: Any) -> None:
        self._problems.append(f"dialog {dialog.type}: {dialog.message}")
        dialog.dismiss()
