"""The tool of the team `demo`: rules that a critic checks a text by."""

from typing import Literal

from roboco import tool

RULES = {
    "sounds": "Describe the sounds there.",
    "smells": "Describe the smells there.",
    "colours": "Describe the colours there.",
}


@tool
def style_rule(about: Literal["sounds", "smells", "colours"]) -> str:
    """Look up a rule of the house style."""
    return RULES[about]
