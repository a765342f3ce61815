"""The code of the team `demo`: a critic, and the tool by which it looks up a rule."""

from typing import Literal

from roboco import AgentAnswer, ToolContext, tool

RULES = {
    "smells": "Write about the smell of the place.",
    "sounds": "Write about the sound of the place.",
    "people": "Write about the people of the place.",
}
SIGNS = {"smells": ("smell", "scent", "aroma"), "sounds": ("sound", "hear", "whisper", "melody"), "people": ()}
"""Words of a text that follows the rule."""


@tool
def style_rule(about: Literal["smells", "sounds", "people"]) -> str:
    """Look up a rule of the house style."""
    return RULES[about]


@tool
def critic(context: ToolContext) -> AgentAnswer:
    """Look up the first rule that the text does not follow, and give it to the writer."""
    last = context.messages[-1]
    if last["role"] == "tool":
        return AgentAnswer(last["content"])
    text = last["content"].lower()
    missing = next(about for about, signs in SIGNS.items() if not any(sign in text for sign in signs))
    return AgentAnswer(calls=[("style_rule", {"about": missing})])
