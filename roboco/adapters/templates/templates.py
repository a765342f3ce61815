"""Prompts: templates in a subset of Jinja's language, rendered within a budget of work and memory.

A tree walker runs them, not Jinja's compiled code. No limit that is checked between lines of code could end a single
filter or text method that runs for days or allocates gigabytes.
"""

from collections.abc import Mapping
from typing import Any

from roboco.adapters.templates.renderer import Renderer
from roboco.adapters.templates.rules import (
    VARIABLES,
    InvalidTemplate,
    count_code_tokens,
    is_plain_text,
    parse_template,
    render_plain_text,
)
from roboco.adapters.templates.values import RenderBudget, TemplateFailure
from roboco.errors import UsageError

__all__ = ["VARIABLES", "JinjaPrompts", "check_template", "count_code_tokens"]

_TEAM_BUDGET_FACTOR = 4
"""The budget that all templates of a team share, as a multiple of the budget of one template."""


class JinjaPrompts:
    """Renders prompts. A template that uses an undefined name is refused, and never rendered with an empty value."""

    def __init__(self, shared: RenderBudget | None = None) -> None:
        self._shared = shared

    def render(self, template: str, variables: Mapping[str, Any]) -> str:
        """Return the rendered prompt. Raise UsageError if it fails, takes too much work or becomes too long."""
        if is_plain_text(template):
            return render_plain_text(template)
        try:
            tree = parse_template(template)
        except InvalidTemplate as error:
            raise UsageError(f"the template fails: {error.mistakes[0]}") from error
        run = Renderer(RenderBudget(self._shared))
        try:
            return run.render(tree, variables)
        except TemplateFailure as error:
            raise UsageError(f"the template fails: line {run.line}: {error}") from error
        except Exception as error:  # operators fail in the ways that Python has
            raise UsageError(f"the template fails: line {run.line}: {type(error).__name__}: {error}") from error

    def with_shared_budget(self) -> "JinjaPrompts":
        """Return prompts that share one budget, so that a team of many agents renders in bounded time."""
        return JinjaPrompts(RenderBudget(times=_TEAM_BUDGET_FACTOR))


def check_template(template: str) -> list[str]:
    """Return the mistakes of the template that can be found without a task."""
    if is_plain_text(template):
        return []
    try:
        parse_template(template)
    except InvalidTemplate as error:
        return list(error.mistakes)
    return []
