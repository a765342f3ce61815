"""The tools of the team. settings.env names this module in ROBOCO_TOOL_MODULES, so that the workers import it."""

from typing import Literal

from roboco import tool

LIMITS = {"note": 30, "letter": 60, "story": 90}


@tool
def word_limit(kind: Literal["note", "letter", "story"]) -> int:
    """Look up how many words a text of this kind may have."""
    return LIMITS[kind]
