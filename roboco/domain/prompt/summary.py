"""HistorySummary: a model's summary of the first steps of a history, so that turns need not send them.

Compaction works in fixed ranges: a summary always ends at a multiple of the policy's `steps`. Therefore all workers
agree on the range of the next summary, and its file makes it usable by every later turn.
"""

from roboco.domain.history.step import TOOL_EXECUTOR, TaskStep
from roboco.domain.history.step_text import step_text
from roboco.domain.prompt.chat import ChatMessage
from roboco.domain.schema import RecordModel
from roboco.domain.team.context_policy import SummaryContext
from roboco.domain.usage import Usage

_MAX_STEP_CHARS = 4000
"""The largest number of characters of a step in the request for a summary."""


class HistorySummary(RecordModel):
    """A summary of the first steps of a history."""

    until: int
    """The position before which the summary ends."""
    text: str
    profile: str
    """The profile that made it."""
    usage: Usage = Usage()
    """The usage of the request."""
    kept: tuple[str, ...] = ()
    """Passages of the summarised steps, word for word, that the search has found for the newest message."""


def summary_end(policy: SummaryContext, steps: int) -> int:
    """Return the position before which a history with this number of steps is summarised.

    At least the newest `steps` of the policy are not.
    """
    return max(0, (steps // policy.steps - 1) * policy.steps)


def summary_messages(policy: SummaryContext, before: str, steps: tuple[TaskStep, ...]) -> tuple[ChatMessage, ...]:
    """Return the messages of the request for a summary: the previous summary, and the steps after it."""
    system = (
        "You keep the minutes of a team's work. Write one summary of all that happened so far, for members who will "
        f"not see it otherwise: at most {policy.tokens} tokens. Keep names, numbers, decisions, what is still open, "
        "and the URIs of files. Answer with the summary alone."
    )
    lines = [f"[{step.agent_name}] {_truncated(_step_text(step))}" for step in steps if not step.is_notice]
    earlier = f"Summary so far:\n{before}\n\n" if before else ""
    return (
        {"role": "system", "content": system},
        {"role": "user", "content": f"{earlier}What happened then:\n" + "\n".join(lines)},
    )


def _step_text(step: TaskStep) -> str:
    if step.agent_name != TOOL_EXECUTOR:
        return step_text(step)
    results = [result.error if result.is_error else str(result.result) for result in step.results]
    return "\n".join(filter(None, [*results, step_text(step)]))


def _truncated(text: str) -> str:
    return text if len(text) <= _MAX_STEP_CHARS else f"{text[:_MAX_STEP_CHARS]} [...]"
