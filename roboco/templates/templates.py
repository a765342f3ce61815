"""Prompts: templates in a part of Jinja's language, which MiniJinja renders within bounds of work and memory.

MiniJinja is imported with the first template that contains code. Most prompts are plain texts.
"""

from collections.abc import Mapping
from math import inf
from time import thread_time
from typing import Any

from roboco.errors import UsageError
from roboco.templates.syntax import is_plain_text

TEAM_SECONDS = 2.0
"""The processor time in which all templates of a team are rendered. One takes at most about 0.5 s."""


class JinjaPrompts:
    """Renders prompts, all in this processor time. A template that uses an undefined name is refused.

    Filters may skip a missing attribute.
    """

    def __init__(self, seconds: float = inf) -> None:
        self._seconds = self._seconds_left = seconds

    def render(self, template: str, variables: Mapping[str, Any]) -> str:
        """Return the rendered prompt. Raise UsageError if it fails, takes too much work or becomes too long."""
        if is_plain_text(template):
            return plain_text(template)
        if self._seconds_left < 0:
            raise UsageError(f"the templates up to here take more than {self._seconds:g} seconds, make them simpler")
        from roboco.templates.rendering import TemplateFailure, render

        start = thread_time()
        try:
            return render(plain_text(template), variables)
        except TemplateFailure as failure:
            raise UsageError(f"the template fails: {failure}") from failure
        finally:
            self._seconds_left -= thread_time() - start


def is_too_early(error: UsageError) -> bool:
    """Return True if a prompt uses the output of an agent, or a value of the state, that does not exist yet."""
    return bool(getattr(error.__cause__, "too_early", False))


def check_template(template: str) -> list[str]:
    """Return the mistakes of the template that can be found without a task."""
    if is_plain_text(template):
        return []
    from roboco.templates.rendering import find_mistakes

    return find_mistakes(plain_text(template))


def plain_text(template: str) -> str:
    """Return the text with normalized line ends and without the last one, as Jinja renders it."""
    return template.replace("\r\n", "\n").replace("\r", "\n").removesuffix("\n")
