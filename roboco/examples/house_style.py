"""The tool of the team `demo`: rules that a critic checks a text by."""

from typing import Literal

from roboco import tool

RULES = {
    "length": "Three short sentences are enough.",
    "words": "Use simple words, and no word twice in a sentence.",
    "senses": "Name one thing to see, one to hear and one to smell.",
}


@tool
def style_rule(about: Literal["length", "words", "senses"]) -> str:
    """Look up a rule of the house style."""
    return RULES[about]
