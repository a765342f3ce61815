"""Working memory: the part of the history that one turn sends to the model, chosen purely.

The first user message and the steps that a tool-calling agent still needs are always included. A step with calls and
the step with their results are kept together, so that every call that is sent has its result.

Providers keep the beginning of a prompt in a cache, which makes the next prompt with the same beginning cheaper and
faster. A window that slides by one step with each turn never begins like the one before. So the oldest steps are left
out in blocks, each about half of the window, at positions that do not depend on the turn:

    turn 40   |first| 1 ............................ 39 |
    turn 41   |first|              20 ................. 40 |
    turn 42   |first|              20 .................... 41 |

A summary that a model has written takes the place of the first steps. Compaction works in fixed ranges: a summary
always ends at a multiple of the policy's `steps`. Therefore all workers agree on the range of the next summary, and its
file makes it usable by every later turn.
"""

from dataclasses import dataclass
from typing import Any, assert_never

from roboco.domain.builtin_tools import ARTIFACT_READ, MEMORY_SEARCH
from roboco.domain.canonical_json import canonical_json
from roboco.domain.history.step import TOOL_EXECUTOR, USER, TaskStep, step_text
from roboco.domain.prompt.chat import ChatMessage, StepGroup, attached_tokens, group_by_call, is_empty, messages_of
from roboco.domain.schema import RecordModel
from roboco.domain.team.context_policy import BudgetContext, RecentContext, SummaryContext
from roboco.domain.team.model_profile import FileKind
from roboco.domain.team.team import Agent
from roboco.domain.tokens import ESTIMATING_TOKENIZER, Tokenizer
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
    texts = [(step.agent_name, _step_text(step)) for step in steps if not step.is_notice]
    lines = [f"[{name}] {text[:_MAX_STEP_CHARS]}{' [...]' * (len(text) > _MAX_STEP_CHARS)}" for name, text in texts]
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


@dataclass(frozen=True)
class PromptInputs:
    """The content from which the working memory is chosen."""

    first: TaskStep
    """Step 0, which may be in the tail too."""
    tail: tuple[TaskStep, ...]
    """The newest steps in order."""
    tools: tuple[dict[str, Any], ...] = ()
    offered: tuple[str, ...] = ()
    """The names of the tools that the agent has only because steps are left out."""
    output: dict[str, Any] | None = None
    """The JSON Schema of the answer, or None for words."""
    summary: HistorySummary | None = None
    """A summary that replaces all steps before its `until`, or None."""
    no_summary: str = ""
    """The reason why there is no summary, or ""."""
    limit: str | None = None
    """The reason why this turn is the last one, or None."""
    accepted: frozenset[FileKind] = frozenset()
    """The kinds of files that the model accepts."""
    max_tokens: int | None = None
    """The most tokens of the request, whatever the agent's strategy, or None if that is not known."""
    tokens: Tokenizer = ESTIMATING_TOKENIZER
    """The tokenizer."""


@dataclass(frozen=True)
class WorkingMemory:
    """The content of one turn's request."""

    messages: tuple[ChatMessage, ...]
    """The messages in order."""
    report: dict[str, Any]
    """A report of included and left-out steps, and of the tokens."""

    @property
    def tokens(self) -> int:
        """Return the number of its tokens, with the tools, as the report counts them."""
        return int(self.report["tokens"]["total"])


def build_working_memory(agent: Agent, prompt: str, seen: PromptInputs) -> WorkingMemory:
    """Return the working memory of the agent's next turn: the rendered prompt, then the chosen steps in order."""
    groups = group_by_call(seen.tail if seen.tail[0].seq == 0 else (seen.first, *seen.tail))
    head, others = groups[0], [(group, _seen(agent, group)) for group in groups[1:]]
    rest = [shown for _, shown in others if shown]
    hidden = {
        step.seq: _HIDDEN[0] if step.is_notice or is_empty(step) else _HIDDEN[1]
        for group, shown in others
        for step in group[len(shown) :]
    }
    after = _notes(seen)
    system: ChatMessage = {"role": "system", "content": prompt}
    fixed = {
        "prompt": _tokens(seen, [system]),
        "tools": seen.tokens.count(canonical_json(list(seen.tools))) if seen.tools else 0,
    }
    if seen.output is not None:  # in the prompt and in the response format
        fixed["output"] = 2 * seen.tokens.count(canonical_json(seen.output))
    opening = messages_of(agent.name, head, seen.accepted)
    summary = _summary_messages(seen)
    closing: list[ChatMessage] = [{"role": USER, "content": text} for text in after]
    spent = sum(fixed.values()) + _tokens(seen, [*opening, *summary, *closing])
    chosen = _newest(agent, seen, rest, spent)
    messages = [system, *opening, *summary, *chosen.messages, *closing]
    if messages[-1]["role"] == "assistant":
        messages.append(_GO_ON)
    included = [step.seq for group in (head, *chosen.groups) for step in group]
    counted = fixed | {"summary": _tokens(seen, summary), "steps": _tokens(seen, [*opening, *closing]) + chosen.tokens}
    return WorkingMemory(tuple(messages), _report(agent, seen, included, (hidden, chosen.why), counted))


def offered_tools(agent: Agent, receipt: dict[str, Any]) -> tuple[str, ...]:
    """Return the tools that reach the steps which the window leaves out; none for an agent that may not see all.

    An agent without any tool gets none: its model server may refuse tools.
    """
    if isinstance(agent.context, RecentContext | BudgetContext) and (agent.context.see or not agent.context.results):
        return ()
    if agent.tool_choice != "auto" or all(one["why"] in _HIDDEN for one in receipt["left_out"]):
        return ()
    return tuple(name for name in (MEMORY_SEARCH, ARTIFACT_READ) if name not in agent.tools)


def conversation(agent: Agent, first: TaskStep, tail: tuple[TaskStep, ...]) -> tuple[ChatMessage, ...]:
    """Return the messages that a function sees at its turn: the working memory of its agent, without a prompt."""
    messages = build_working_memory(agent, "", PromptInputs(first, tail)).messages[1:]
    return messages[:-1] if messages[-1] is _GO_ON else messages


_GO_ON: ChatMessage = {"role": USER, "content": "Go on."}


def _seen(agent: Agent, group: StepGroup) -> StepGroup:
    """Return the steps of the group that the agent sees; empty if it sees none."""
    step, policy = group[0], agent.context
    if step.is_notice or is_empty(step) or (step.is_map and step.calls):
        return ()
    if not step.by_agent or step.agent_name == agent.name or isinstance(policy, SummaryContext):
        return group
    if policy.see is not None and step.agent_name not in policy.see:
        return ()
    return group if policy.results else group[:1]


_HIDDEN = ("empty for the model", "the agent does not see it")


def _report(
    agent: Agent, seen: PromptInputs, included: list[int], why: tuple[dict[int, str], str], tokens: dict[str, int]
) -> dict[str, Any]:
    receipt: dict[str, Any] = {
        "strategy": agent.context.strategy,
        "included": ranges(included),
        "left_out": _left_out(seen, included, *why),
        "tokens": tokens | {"total": sum(tokens.values())},
        "tokenizer": seen.tokens.name,
    }
    if seen.summary is not None:
        receipt["summary"] = {"steps": [0, seen.summary.until - 1], "by": seen.summary.profile}
    if seen.offered:
        receipt["offered"] = list(seen.offered)
    if seen.no_summary:
        receipt["no_summary"] = seen.no_summary
    return receipt


def _left_out(seen: PromptInputs, included: list[int], hidden: dict[int, str], why: str) -> list[dict[str, Any]]:
    """Return the ranges of steps that are left out, each with the reason. `hidden` has that of single steps."""
    summarized = 0 if seen.summary is None else seen.summary.until
    found: list[dict[str, Any]] = [
        {"steps": span, "why": reason}
        for reason in sorted({*hidden.values()})
        for span in ranges(sorted(seq for seq, other in hidden.items() if other == reason))
    ]
    before = -1
    for first, last in [*ranges(sorted({*included, *hidden})), [seen.tail[-1].seq + 1, 0]]:
        if first - before > 1:
            found += _gap(before + 1, first - 1, summarized, why)
        before = last
    return sorted(found, key=lambda one: one["steps"])


def _gap(first: int, last: int, summarized: int, why: str) -> list[dict[str, Any]]:
    """Return the reasons for a gap in the steps. Those before position `summarized` are part of a summary."""
    parts = ((first, min(last, summarized - 1), "in the summary"), (max(first, summarized), last, why))
    return [{"steps": [start, end], "why": reason} for start, end, reason in parts if start <= end]


def _notes(seen: PromptInputs) -> list[str]:
    """Return notes beside the steps: the user's current view, and that this is the last turn."""
    newest = next((step for step in reversed(seen.tail) if step.agent_name == USER), seen.first)
    view = newest.metadata.get("client_context")
    notes = [f"(Current view of the user: {canonical_json(view)})"] if view else []
    if seen.limit is not None:
        notes.append(
            f"The work has to end now: {seen.limit}. This is the last turn, without tools: report the results "
            "and what is still open."
        )
    return notes


def _summary_messages(seen: PromptInputs) -> list[ChatMessage]:
    if seen.summary is None:
        return []
    text = f"(What happened in steps 1 to {seen.summary.until - 1}, in short)\n{seen.summary.text}"
    if seen.summary.kept:
        text = "\n".join((text, "(From these steps, word for word)", *seen.summary.kept))
    return [{"role": USER, "content": text}]


@dataclass(frozen=True)
class _Chosen:
    """The chosen groups in order, their messages and tokens, and the reason why the group before them is left out."""

    groups: list[StepGroup]
    messages: list[ChatMessage]
    tokens: int
    why: str


@dataclass(frozen=True)
class _Candidate:
    group: StepGroup
    messages: list[ChatMessage]
    tokens: int


def _newest(agent: Agent, seen: PromptInputs, groups: list[StepGroup], spent: int) -> _Chosen:
    """Return the newest groups that fit beside this number of tokens; at least one."""
    begin, why = _first_position(agent, seen)
    most, limit = _token_limit(agent, seen)
    chosen: list[_Candidate] = []
    left = total = limit - spent
    for group in reversed(groups):
        if chosen and group[-1 if seen.summary is not None else 0].seq < begin:
            break
        messages = messages_of(agent.name, group, seen.accepted)
        size = _tokens(seen, messages)
        if chosen and size > left:
            chosen, why = _from_round_position(chosen, total // 2), most
            break
        chosen.insert(0, _Candidate(group, messages, size))
        left -= size
    else:
        why = "older than the loaded steps"
    messages = [message for candidate in chosen for message in candidate.messages]
    return _Chosen([one.group for one in chosen], messages, sum(one.tokens for one in chosen), why)


def _first_position(agent: Agent, seen: PromptInputs) -> tuple[int, str]:
    """Return the position of the first step that the agent's strategy includes, and why older ones are left out."""
    end = seen.tail[-1].seq + 1
    match agent.context:
        case RecentContext() as policy:
            return _block_position(end, policy.steps), f"older than the newest {policy.steps} steps"
        case BudgetContext():
            return 0, ""
        case SummaryContext() as policy:
            if seen.summary is not None:
                return seen.summary.until, "in the summary"
            return _block_position(end, 2 * policy.steps), f"older than the newest {2 * policy.steps} steps"
        case unknown:
            assert_never(unknown)


def _block_position(end: int, steps: int) -> int:
    """Return the beginning of a window of at most this number of steps, which moves by half of them at a time."""
    block = max(1, steps // 2)
    return max(0, -(-(end - steps) // block) * block)


def _token_limit(agent: Agent, seen: PromptInputs) -> tuple[str, int]:
    """Return why steps are left out that exceed the tokens of the request, and the limit of these tokens."""
    limits = [seen.max_tokens] if seen.max_tokens is not None else []
    limits += [agent.context.tokens] if isinstance(agent.context, BudgetContext) else []
    limit = min(limits, default=_NO_LIMIT)
    return f"does not fit into {limit} tokens", limit


_NO_LIMIT = 2**62


def _from_round_position(chosen: list[_Candidate], least: int) -> list[_Candidate]:
    """Return the groups from the roundest position on, with at least this number of tokens if there are as many.

    A position is the rounder, the higher the power of two that divides it. The choice changes only as that position
    leaves the window, or a rounder one enters it.
    """
    after = 0
    starts = [len(chosen) - 1]
    for index in range(len(chosen) - 1, -1, -1):
        after += chosen[index].tokens
        if after >= least:
            starts = list(range(index + 1))
            break
    start = max(starts, key=lambda index: (_roundness(chosen[index].group[0].seq), -index))
    return chosen[start:]


def _roundness(position: int) -> int:
    return position & -position


def _tokens(seen: PromptInputs, messages: list[ChatMessage]) -> int:
    return sum(_message_tokens(seen.tokens, message) for message in messages)


def _message_tokens(tokens: Tokenizer, message: ChatMessage) -> int:
    content = message["content"]
    if isinstance(content, str):
        return tokens.count(canonical_json(message))
    return tokens.count(canonical_json(message)) + sum(map(attached_tokens, content))


def ranges(numbers: list[int]) -> list[list[int]]:
    """Return the ascending numbers as ranges of first and last."""
    found: list[list[int]] = []
    for number in numbers:
        if found and found[-1][1] == number - 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return found
