"""The code of the shipped teams: a critic, the tool by which it looks up a rule, and an analyst."""

import re
from typing import Literal

from roboco import AgentAnswer, File, ToolContext, tool

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


@tool
def analyst(context: ToolContext) -> AgentAnswer:
    """Compute the mean of the numbers that were found in the sandbox, and keep a report."""
    last = context.messages[-1]
    if last["role"] == "tool":
        mean = re.findall(r"\d+\.\d+", last["content"])[0]
        found = f"The mean is {float(mean):.1f} cm."
        return AgentAnswer(found, files=[File("report.md", found)])
    lists = re.findall(r"\[(\d+(?:,\s*\d+)+)\]", str([message["content"] for message in context.messages]))
    numbers = lists[-1] if lists else "0"
    return AgentAnswer(calls=[("python", {"code": f"print(float(sum(x := [{numbers}])) / len(x))"})])
