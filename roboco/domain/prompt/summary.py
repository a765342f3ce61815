"""HistorySummary: what a model made of the first steps of a history, so that turns need not send them."""

from roboco.domain.history.step import TOOL_EXECUTOR, TaskStep
from roboco.domain.prompt.chat import Message, told
from roboco.domain.schema import Recorded
from roboco.domain.team.context_policy import SummaryContext
from roboco.domain.usage import Spent

_LONGEST = 4000
"""Characters of a step that are shown to the model that summarises."""


class HistorySummary(Recorded):
    """A summary of the steps before position `until`; `profile` has made it, and `spent` is what that has used."""

    until: int
    text: str
    profile: str
    spent: Spent = Spent()


def summarised_until(policy: SummaryContext, steps: int) -> int:
    """Before which position a history of so many steps is summarised: the newest `steps` or more are not."""
    return max(0, (steps // policy.steps - 1) * policy.steps)


def summary_messages(policy: SummaryContext, before: str, steps: tuple[TaskStep, ...]) -> tuple[Message, ...]:
    """What a model is asked to make a summary of: the one before, and the steps that came after it."""
    system = (
        "You keep the minutes of a team's work. Write one summary of all that happened so far, for members who will "
        f"not see it otherwise: at most {policy.tokens} tokens. Keep names, numbers, decisions, what is still open, "
        "and the URIs of files. Answer with the summary alone."
    )
    lines = [f"[{step.agent_name}] {_cut(_shown(step))}" for step in steps]
    earlier = f"Summary so far:\n{before}\n\n" if before else ""
    return (
        {"role": "system", "content": system},
        {"role": "user", "content": f"{earlier}What happened then:\n" + "\n".join(lines)},
    )


def _shown(step: TaskStep) -> str:
    if step.agent_name != TOOL_EXECUTOR:
        return told(step)
    results = [result.error if result.is_error else str(result.result) for result in step.results]
    return "\n".join(filter(None, [*results, told(step)]))


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} [...]"
