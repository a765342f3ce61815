"""request: the request of a turn to its model server, within the limits of the task, and the next one after a failure.

too long ───────────────► the same profile, with half of the prompt, once
no credit, no model ────► the next profile of `fallback`
outage beyond its limit ► the next profile of `fallback`, at once
anything else ──────────► none: the turn waits, or fails
"""

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from roboco.domain.decision.answer_checks import form_of_turn, with_form
from roboco.domain.decision.budget import limit_reached, reserve
from roboco.domain.history.part import Artifact, artifact_name
from roboco.domain.history.state import AFTER_INVALID_OUTPUT, AFTER_RESULTS, WRAP_UP_RULE
from roboco.domain.ids import tenant_of
from roboco.domain.limits import Limits
from roboco.domain.paths import artifact_path
from roboco.domain.prompt.chat import ChatMessage, data_of, file_mime_type, file_part, kind_of
from roboco.domain.prompt.coordinator_tools import coordinator_tools
from roboco.domain.prompt.working_memory import PromptInputs, WorkingMemory, build_working_memory, offered_tools
from roboco.domain.team.context_policy import BudgetContext
from roboco.domain.team.model_profile import ModelProfile
from roboco.domain.team.team import Agent
from roboco.domain.tokens import ESTIMATING_TOKENIZER
from roboco.domain.usage import ModelUsage, Usage
from roboco.engine.coordinate import outage
from roboco.engine.engine import WorkspaceRecords
from roboco.engine.prompt import newest_outputs, render_prompt
from roboco.engine.run.claimed_turn import ClaimedTurn
from roboco.engine.run.summarize import Failed, Ready, Refused, SummaryResult, ready_of
from roboco.engine.usage import failed_usage, unfinished_usage, usage_at
from roboco.errors import ModelError
from roboco.model.tokenizers import tokenizer_of
from roboco.ports.model import Request
from roboco.ports.tools import Listings
from roboco.templates.templates import JinjaPrompts

DEFAULT_REPLY_TOKENS = 4096
"""Tokens of a model's context that are kept for its reply, at most a quarter, if the profile has no `max_tokens`."""
EXPECTED_REPLY_TOKENS = 500
"""Tokens that rate limits reserve for a reply whose length nothing bounds."""

MAX_SHOWN_BYTES = 8 * 1024 * 1024
"""The largest file that is sent to a model, in bytes."""
MAX_SHOWN_FILES = 8
"""The largest number of files in one request. The newest ones are sent."""


@dataclass(frozen=True)
class PreparedRequest:
    """The request of a turn, with all that its step records of it."""

    memory: WorkingMemory
    """The messages of the request, and the receipt of how they were chosen."""
    request: Request
    agent: Agent
    """The agent, with the type that its answer has in this turn."""
    refused: str = ""
    """The limit that forbids the request, or ""."""
    summary: Ready = field(default_factory=Ready)
    """The summary that the request contains."""
    fallback: dict[str, str] = field(default_factory=dict)
    """The profile that answers in place of the agent's, and why; {} if the agent's own does."""
    spent: Usage = field(default_factory=Usage)
    """The usage of requests of the turn that failed."""
    listings: Listings = field(default_factory=dict)
    """The tools that MCP servers listed for the request."""
    output: dict[str, Any] | None = None
    """The JSON Schema of the answer, or None for words."""
    form: dict[str, Any] = field(default_factory=dict)
    """The form that a message demands of the answer, or {}."""

    @property
    def expected_tokens(self) -> int:
        """The tokens that the turn is expected to use, in and out."""
        usual = self.request.profile.max_tokens or EXPECTED_REPLY_TOKENS
        return self.memory.tokens + min(usual, self.request.max_tokens or usual)

    @property
    def possible_usage(self) -> ModelUsage:
        """The tokens that the turn may use. A reply that nothing bounds counts with `DEFAULT_REPLY_TOKENS`."""
        limits = (self.request.max_tokens, self.request.profile.max_tokens)
        return ModelUsage(self.memory.tokens, min((one for one in limits if one), default=DEFAULT_REPLY_TOKENS))


@dataclass(frozen=True)
class Choice:
    """How a turn asks for its reply. It begins with the agent's profile and whole prompt; failures lead to others."""

    profile: ModelProfile
    fallback: dict[str, str] = field(default_factory=dict)
    """The name of the profile if it is not the agent's own, that of the agent's, and why it answers; else {}."""
    max_tokens: int | None = None
    """The most tokens of the request, because a longer one was refused, or None."""
    too_long: tuple[int, ModelError] | None = None
    """The tokens of the request that was refused as too long, and the refusal; None if none was."""
    spent: Usage = field(default_factory=Usage)
    """The usage of the requests that failed before."""
    chunks: int = 0
    """The number of chunks, all of reasoning, that these requests have emitted."""


def prepare_request(turn: ClaimedTurn, result: SummaryResult, listings: Listings, choice: Choice) -> PreparedRequest:
    """Return the request of the turn with the summary that is ready.

    UsageError if the team names a tool or template variable that does not exist; NotRunnable if this worker lacks the
    function of a tool.
    """
    engine, team, task, task_id = turn.engine, turn.team, turn.task, turn.task_id
    summary, state, toolbox = ready_of(result), task.state, engine.services.toolbox
    last_turn = turn.rule == WRAP_UP_RULE
    form = {} if last_turn else form_of_turn(team, turn.agent, state, turn.rule)
    agent = with_form(turn.agent, form)
    must_call = form.get("calls") == "required"
    first_call = turn.rule not in (AFTER_RESULTS, AFTER_INVALID_OUTPUT)
    tools: tuple[dict[str, Any], ...] = ()
    if not last_turn and (agent.tool_choice != "first" or first_call):
        tools = (*toolbox.describe(team, agent, listings), *coordinator_tools(team, agent, state, bool(form)))
    profile = _with_sampling(choice.profile, state.answer_form.get("sampling") or {})
    limits = [limit for limit in (choice.max_tokens, _prompt_limit(profile)) if limit is not None]
    required = bool(tools) and (must_call or (agent.tool_choice != "auto" and first_call))
    typed = agent.output is not None and not last_turn
    output = toolbox.output_schema(agent) if typed else None
    seen = PromptInputs(
        first=task.steps.first,
        tail=task.steps.tail,
        tools=tools,
        output=None if required else output,
        summary=summary.summary,
        no_summary=result.reason if isinstance(result, Failed) else "",
        limit=state.limit if last_turn else None,
        accepted=profile.accepted,
        max_tokens=min(limits, default=None),
        tokens=tokenizer_of(profile.model)
        if isinstance(agent.context, BudgetContext) or limits
        else ESTIMATING_TOKENIZER,
    )
    outputs = newest_outputs(engine.workspace.histories, agent, task_id, state, task.steps.tail)
    shared = {"output": outputs, "state": state.values}
    prompt = render_prompt(JinjaPrompts(), team, agent, task_id, task.steps.first, shared)
    if added := state.answer_form.get("instructions"):
        prompt = f"{prompt}\n\n{added}"
    memory = build_working_memory(agent, prompt, seen)
    if offered := offered_tools(agent, memory.report) if tools else ():
        tools = (*tools, *toolbox.describe(team, agent.model_copy(update={"tools": offered}), listings))
        memory = build_working_memory(agent, prompt, replace(seen, tools=tools, offered=offered))
    task_limits = team.limits.with_overrides(state.limit_overrides)
    so_far = state.plus_usage(agent.name, summary.usage.plus(unfinished_usage(team, task)))
    reserved = reserve(task_limits, so_far, agent.name, profile, memory.tokens)
    refused = "" if last_turn else reserved.refused or _time_limit_reached(turn, task_limits) or ""
    if isinstance(result, Refused):
        refused = result.limit
    request = Request(
        profile,
        memory.messages,
        tools,
        tool_choice="required" if required else "auto",
        output=None if required else output,
        max_tokens=None if last_turn else reserved.max_tokens,
        tenant=tenant_of(task_id),
    )
    return PreparedRequest(
        memory, request, agent, refused, summary, choice.fallback, choice.spent, listings, output, form
    )


def _with_sampling(profile: ModelProfile, sampling: Mapping[str, Any]) -> ModelProfile:
    """Return the profile with the sampling parameters that a message brings."""
    if not sampling:
        return profile
    most = [one for one in (profile.max_tokens, sampling.get("max_tokens")) if one]
    own = {name: sampling[name] for name in ("temperature", "top_p") if name in sampling}
    others = {name: value for name, value in sampling.items() if name not in (*own, "max_tokens")}
    parameters = profile.parameters | (others if profile.provider == "openai" else {})
    return profile.model_copy(update=own | {"max_tokens": min(most, default=None), "parameters": parameters})


def _prompt_limit(profile: ModelProfile) -> int | None:
    """Return the tokens that the model's context leaves for a prompt beside the reply, or None if it is not known."""
    if profile.context_window is None:
        return None
    reply = profile.max_tokens or DEFAULT_REPLY_TOKENS
    return profile.context_window - min(reply, profile.context_window // 4)


def _time_limit_reached(turn: ClaimedTurn, limits: Limits) -> str | None:
    """Return the time limit if it was reached while the turn waited, else None. No other limit can have changed."""
    if limits.max_seconds is None:
        return None
    task = turn.task
    began = turn.engine.workspace.frozen_teams.started_at(turn.task_id, task.state, task.steps.first)
    seconds = turn.engine.clock.now() - task.state.limits_since(began).timestamp() if began is not None else 0.0
    return limit_reached(limits, task.state, task.position.agent, seconds)


def embed_files(workspace: WorkspaceRecords, task_id: str, request: Request) -> Request:
    """Return the request with the newest MAX_SHOWN_FILES files in place of the URIs of their artifacts."""
    left = MAX_SHOWN_FILES
    messages: list[ChatMessage] = []
    for message in reversed(request.messages):
        content = message["content"]
        if isinstance(content, list):
            parts: list[ChatMessage] = []
            for part in reversed(content):
                uri = data_of(part)
                shown = part if uri is None else _file(workspace, task_id, uri, left)
                left -= uri is not None and shown["type"] != "text"
                parts.insert(0, shown)
            message = message | {"content": parts}
        messages.insert(0, message)
    return replace(request, messages=tuple(messages))


def _file(workspace: WorkspaceRecords, task_id: str, uri: str, left: int) -> ChatMessage:
    name = artifact_name(uri)
    path = artifact_path(task_id, name)
    size = workspace.files.size(path) if left else None
    data = workspace.files.get(path) if size is not None and size <= MAX_SHOWN_BYTES else None
    found = file_mime_type(data or b"")
    if data is None or found is None:
        return {"type": "text", "text": f"({uri} is not shown: {_omission_reason(left, size)})"}
    kind, encoded = kind_of(Artifact(uri=uri, mime_type=found)), base64.b64encode(data).decode()
    return file_part(kind, encoded if kind == "audio" else f"data:{found};base64,{encoded}", found, name)


def _omission_reason(left: int, size: int | None) -> str:
    if not left:
        return "it is older than the newest files"
    if size is None:
        return "the artifact does not exist"
    return (
        f"it has {size} bytes, at most {MAX_SHOWN_BYTES} are possible"
        if size > MAX_SHOWN_BYTES
        else "it is no file of a known format"
    )


TOO_LONG = "context_length"
"""The code of an error of a request that is longer than its model's context."""
ANOTHER_PROFILE_HELPS = frozenset({"quota", "not_found", "auth", "no_key"})
"""Codes of errors of a model or its account, which another profile need not have."""
MIN_PROMPT_TOKENS = 100
_NAMED_LIMIT = re.compile(r"(?:maximum|limit|length|size|window|only)\D{0,60}?(\d{3,8})", re.IGNORECASE)
_SAFETY = 0.8
"""The part of a limit in tokens that a prompt may have by our estimate."""


def first_choice(turn: ClaimedTurn) -> Choice:
    """Return how the turn asks first: by the agent's profile, unless that has been out for longer than it may be."""
    own = Choice(turn.profile)
    if not _is_out(turn):
        return own
    reason = f"the outage of {own.profile.model} has lasted {turn.task.refusals.seconds:.0f} s"
    return _next_profile(turn, own, reason, Usage()) or own


def next_choice(turn: ClaimedTurn, failed: Choice, prompt_tokens: int, error: ModelError) -> Choice | None:
    """Return how to ask after this failure, or None if the turn must wait or fail."""
    if error.code == TOO_LONG and failed.max_tokens is None:
        shorter = _shorter(prompt_tokens, error.message)
        return Choice(failed.profile, failed.fallback, shorter, (prompt_tokens, error), _spent(failed, error))
    helps = error.code in ANOTHER_PROFILE_HELPS or (error.retryable and _is_out(turn))
    return _next_profile(turn, failed, error.message, _spent(failed, error)) if helps else None


def _spent(failed: Choice, error: ModelError) -> Usage:
    return failed.spent.plus(usage_at(failed.profile, failed_usage(error)))


def _is_out(turn: ClaimedTurn) -> bool:
    left = outage.seconds_to_fallback(turn.team, turn.task)
    return left is not None and left <= 0


def _next_profile(turn: ClaimedTurn, failed: Choice, reason: str, spent: Usage) -> Choice | None:
    """Return the choice of the profile after the failed one, or None if that was the last."""
    names, tried = turn.profile.fallback, failed.fallback.get("profile")
    rest = names[names.index(tried) + 1 :] if tried in names else names
    if not rest:
        return None
    own = turn.agent.model or turn.team.default_profile or ""
    fallback = {"profile": rest[0], "instead_of": own, "reason": reason[:400]}
    return Choice(turn.team.models[rest[0]], fallback, spent=spent)


def _shorter(prompt_tokens: int, message: str) -> int:
    """Return the tokens of the next prompt: half, or less if the server has named a smaller limit."""
    named = [int(number) for number in _NAMED_LIMIT.findall(message)]
    limits = [int(number * _SAFETY) for number in named if MIN_PROMPT_TOKENS < number < prompt_tokens]
    return max(MIN_PROMPT_TOKENS, min([prompt_tokens // 2, *limits]))
