"""reply: the reply of a model, as the content and the metadata of a step.

A typed answer:

    text ─► JSON ─► the type ─► the agent's own check ─► `output` in the step's metadata
             └────────┴────────────┴─► `invalid_output`: the next turn asks again ─► MAX_PROMPTS times: the task fails

A wrong answer is a step as any other, so that a worker that dies between two requests repeats none of them.
"""

import json
import time
from dataclasses import dataclass, field
from itertools import takewhile

from roboco.domain.canonical_json import json_bytes, validated_json, well_formed
from roboco.domain.decision.tool_answers import requires_approval
from roboco.domain.history.part import ErrorPart, Part, TextPart, ToolCall, ToolCallPart
from roboco.domain.history.step import (
    INVALID_OUTPUT,
    MAX_ANSWER_BYTES,
    OUTPUT,
    PROVIDER,
    REASONING,
    STATE,
    checked_changes,
)
from roboco.domain.ids import call_id_at
from roboco.domain.prompt.coordinator_tools import schema_of
from roboco.domain.prompt.typed_answer import answer_value
from roboco.domain.team.known_tools import unlisted_tool_error
from roboco.domain.team.team import Team, default_prefix
from roboco.domain.team.tool_spec import ServerTool
from roboco.domain.usage import ModelUsage
from roboco.engine.run.claimed_turn import ClaimedTurn
from roboco.engine.run.request import PreparedRequest
from roboco.engine.run.summarize import Ready
from roboco.engine.usage import failed_usage
from roboco.errors import ModelError, UsageError
from roboco.ports.model import Reply, RequestedCall
from roboco.ports.tools import Listings

MAX_PROMPTS = 2
"""How often an answer is asked for again."""
MAX_REASON_CHARS = 1000
OUTPUT_CHECK = "output_check"
"""The error code of a step whose answer could not be checked."""


@dataclass(frozen=True)
class TypedAnswer:
    """The metadata and the error that a step records of a typed answer."""

    metadata: dict[str, object] = field(default_factory=dict)
    error: ErrorPart | None = None
    """Why the task fails: the answer was asked for again in vain."""


def answer_of(turn: ClaimedTurn, prepared: PreparedRequest, text: str, cut_off: bool) -> TypedAnswer:
    """Return the answer in this text of a whole reply without calls. `cut_off` is True if it ended at its limit."""
    agent, schema, toolbox = prepared.agent, prepared.output, turn.engine.services.toolbox
    if prepared.form.get("calls") == "required":
        return _asked_again(turn, f"call one of {', '.join(turn.task.state.client_tools)}")
    if schema is None:
        return TypedAnswer()
    try:
        value = toolbox.checked_output(agent, answer_value(schema, text))
        demanded = prepared.form.get("schema", schema)
        if demanded != schema and (wrong := toolbox.args_error(demanded, value)):
            raise ValueError(wrong)
        if (size := json_bytes(value)) > MAX_ANSWER_BYTES:
            raise ValueError(f"it has {size} bytes of JSON, at most {MAX_ANSWER_BYTES} are possible")
        changes = {name: value[name] for name in agent.state if isinstance(value, dict) and name in value}
        checked_changes(turn.task.state.values, changes)
    except UsageError as error:
        return TypedAnswer(error=ErrorPart(code=OUTPUT_CHECK, message=f"{agent.name}: {error}"))
    except ValueError as error:
        reason = "it was cut off at the limit of its tokens; be brief" if cut_off else str(error)[:MAX_REASON_CHARS]
        return _asked_again(turn, reason or type(error).__name__)
    return TypedAnswer({OUTPUT: value} | ({STATE: changes} if changes else {}))


def _asked_again(turn: ClaimedTurn, reason: str) -> TypedAnswer:
    """Return the answer that is asked for again for this reason, or the failure after MAX_PROMPTS times."""
    name, newest = turn.agent.name, reversed(turn.task.steps.tail)
    prompts = sum(1 for _ in takewhile(lambda step: step.agent_name == name and step.invalid_output, newest))
    if prompts < MAX_PROMPTS:
        return TypedAnswer({INVALID_OUTPUT: reason})
    message = f"{name}: its answer does not fit its output, after {prompts} corrections: {reason}"
    return TypedAnswer(error=ErrorPart(code=INVALID_OUTPUT, message=message))


def reply_metadata(prepared: PreparedRequest, reply: Reply) -> dict[str, object]:
    """Return the metadata of a step with a whole reply."""
    metadata = _usage_metadata(prepared, reply.usage) | {
        "model": reply.model,
        "finish_reason": reply.finish_reason,
        "timings": {"first_token_ms": reply.first_token_ms, "duration_ms": reply.duration_ms},
        "context": prepared.memory.report,
    }
    optional = {
        "limit": reply.limit,
        "reprompts": reply.reprompts,
        "refusal": reply.refusal,
        REASONING: reply.reasoning,
        PROVIDER: reply.provider,
    }
    return metadata | _fallback_metadata(prepared) | {name: value for name, value in optional.items() if value}


def _fallback_metadata(prepared: PreparedRequest) -> dict[str, object]:
    """Return the metadata of a turn that another profile than the agent's answers; empty for any other turn."""
    return {"fallback": prepared.fallback} if prepared.fallback else {}


def _usage_metadata(prepared: PreparedRequest, used: ModelUsage) -> dict[str, object]:
    """Return the usage of the turn and of its summaries. The cost is present only if there are prices."""
    made, cost = prepared.summary.usage.plus(prepared.spent), prepared.request.profile.cost(used)
    usage = used.metadata()
    usage |= {"tokens_in": used.tokens_in + made.tokens_in, "tokens_out": used.tokens_out + made.tokens_out}
    return {"usage": usage | _cost(made.cost + cost)} | prepared.summary.metadata()


def summary_metadata(summary: Ready) -> dict[str, object]:
    """Return the usage of the summaries of a turn that requests no reply; empty if none was made."""
    made = summary.usage
    if not made.steps:
        return {}
    usage: dict[str, object] = {"tokens_in": made.tokens_in, "tokens_out": made.tokens_out}
    return {"usage": usage | _cost(made.cost)} | summary.metadata()


def _cost(cost: float) -> dict[str, object]:
    return {"cost": round(cost, 9)} if cost else {}


def failure_metadata(prepared: PreparedRequest, error: ModelError, texts: list[str], chunks: int) -> dict[str, object]:
    """Return the metadata of a step whose model call failed."""
    usage = _usage_metadata(prepared, failed_usage(error, prepared.memory.tokens, texts))
    return usage | _fallback_metadata(prepared) | {"context": prepared.memory.report, "chunks": chunks}


def interruption_metadata(
    prepared: PreparedRequest, used: ModelUsage, chunks: int, receipt: dict[str, object]
) -> dict[str, object]:
    """Return the metadata of an interrupted step. Its usage is an estimate: the model reported none."""
    return _usage_metadata(prepared, used) | {
        "interrupted": True,
        "receipt": receipt,
        "context": prepared.memory.report,
        "chunks": chunks,
    }


MALFORMED = "malformed_tool_call"
"""The error code of a step whose model wrote no readable tool call."""
NOTHING_SAID = {
    "empty": "said nothing, also when it was asked again; change its prompt, or use another model",
    "length": "used all its output tokens before its first word, perhaps for reasoning; raise `max_tokens` or the "
    "limits, or lower the model's reasoning",
    "content_filter": "said nothing, because a filter of its provider has stopped it; change what it is asked or shown",
}
"""By finish reason: why a step has no text and no call. The reason is the code of its error."""
REFUSED = "refused"
"""The error code of a step whose model, or a filter of its provider, refuses to answer."""
MAX_CHECK_SECONDS = 5.0
"""Seconds of processor time for checking the arguments of one reply. Calls that remain unchecked are refused."""


@dataclass(frozen=True)
class StepContent:
    """The parts of a step, and the facts about its calls that its metadata records."""

    parts: tuple[Part, ...]
    invalid: dict[str, str] = field(default_factory=dict)
    """By id of the call: why its arguments are not valid."""
    effects: dict[str, str] = field(default_factory=dict)
    """By tool name: the effect that its MCP server declares."""
    unlisted: dict[str, str] = field(default_factory=dict)
    """By id of the call: why its MCP server does not have the tool."""
    answer: dict[str, object] = field(default_factory=dict)
    """The value of a typed answer under `output`, or why it is asked for again under `invalid_output`."""

    def metadata(self) -> dict[str, object]:
        """Return the metadata of the step about its calls; empty if there is nothing to record."""
        about = {"invalid_calls": self.invalid, "unlisted_calls": self.unlisted, "effects": self.effects}
        return {name: value for name, value in about.items() if value} | self.answer


def content_of_failure(turn: ClaimedTurn, code: str, message: str, text: str = "") -> StepContent:
    """Return the content of a step whose model call failed after this text."""
    error = ErrorPart(code=code, message=f"{turn.task.position.agent}: {message}")
    return StepContent((TextPart(text=text), error) if text else (error,))


def content_of_reply(turn: ClaimedTurn, text: str, reply: Reply, prepared: PreparedRequest) -> StepContent:
    """Return the content of a whole reply."""
    order, team, listings = turn.claim.assignment, turn.team, prepared.listings
    error, answer, truncated = _error_of(turn, text, reply), TypedAnswer(), reply.finish_reason == "length"
    if error is None and not reply.calls:
        answer = answer_of(turn, prepared, text, truncated)
        error = answer.error
    parts: list[Part] = [TextPart(text=text)] if text or not (reply.calls or error) else []
    invalid: dict[str, str] = {}
    effects: dict[str, str] = {}
    lacking: dict[str, str] = {}
    until = time.thread_time() + MAX_CHECK_SECONDS
    for index, requested in enumerate(reply.calls[: 1 if turn.task.state.answer_form.get("one_call") else None]):
        name, problem = well_formed(requested.name), ""
        try:
            args = parse_arguments(requested, truncated)
            call_id = call_id_at(order.task_id, order.seq, index, name, args)
        except ValueError as mistake:
            args, problem = {}, str(mistake)
            call_id = call_id_at(order.task_id, order.seq, index, name, well_formed(requested.arguments))
        call = ToolCall(id=call_id, tool_name=name, args=args)
        if problem := problem or _argument_error(turn, call, listings, until):
            invalid[call_id] = problem
        if why := unlisted_tool_error(team, turn.agent, name, listings):
            lacking[call_id] = why
        if (effect := _declared_effect(team, name, listings)) is not None:
            effects[name] = effect
        parts.append(ToolCallPart(tool_call=call))
    if error is not None:
        parts.append(error)
    return StepContent(tuple(parts), invalid, effects, lacking, answer.metadata)


def _error_of(turn: ClaimedTurn, text: str, reply: Reply) -> ErrorPart | None:
    """Return why the reply is no answer, or None if it is one."""
    who = f"{turn.task.position.agent}: model {reply.model!r}"
    if reply.mistake:  # it was asked again in vain
        times = f"{reply.reprompts + 1} times" if reply.reprompts else "once"
        message = (
            f"{who} was asked {times} and wrote no readable tool call: {reply.mistake[:300]}; use a larger model, or "
            "one with native tool calls"
        )
        return ErrorPart(code=MALFORMED, message=message)
    if reply.refusal:
        return ErrorPart(code=REFUSED, message=f"{who} refuses to answer: {reply.refusal[:1000]}")
    if reply.finish_reason == "content_filter":
        cut = "was stopped by a filter of its provider in the middle of its answer; change what it is asked or shown"
        return ErrorPart(code="content_filter", message=f"{who} {cut if text else NOTHING_SAID['content_filter']}")
    if text.strip() or reply.calls or reply.finish_reason not in NOTHING_SAID:
        return None
    limit = f" ({reply.limit})" if reply.limit else ""
    return ErrorPart(code=reply.finish_reason, message=f"{who} {NOTHING_SAID[reply.finish_reason]}{limit}")


def _declared_effect(team: Team, name: str, listings: Listings) -> str | None:
    """Return the effect that the tool's MCP server declares, or None if the team declares it or the server does not."""
    spec = team.tool(name)
    if not isinstance(spec, ServerTool):
        return None
    settings = team.mcp_servers[spec.server].settings_of(default_prefix(spec.server), spec.remote)
    if settings is None or settings.effect is not None:
        return None
    listing = listings.get(spec.server)
    tool = None if listing is None else listing.tools.get(spec.remote)
    return None if tool is None else tool.effect


def parse_arguments(requested: RequestedCall, truncated: bool) -> dict[str, object]:
    """Return the arguments of the call. Raise ValueError if they are no JSON object.

    Empty arguments are valid, and so is an empty JSON value such as `null`, unless the reply was `truncated` at its
    maximum length: then they may have been lost.
    """
    if truncated and not requested.arguments.strip():
        raise ValueError("the answer was cut off before the arguments")
    found = f"(found {well_formed(requested.arguments)[:200]!r})"
    try:
        args = validated_json(json.loads(requested.arguments or "{}") or {})
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the arguments are not JSON: {error} {found}") from error
    if not isinstance(args, dict):
        raise ValueError(f"the arguments are no JSON object {found}")
    return args


def _argument_error(turn: ClaimedTurn, call: ToolCall, listings: Listings, until: float) -> str:
    """Return why arguments that are checked before the call do not fit, or ""; `until` bounds the time of checks."""
    team, toolbox = turn.team, turn.engine.services.toolbox
    schema = schema_of(team, turn.task.state, call.tool_name)
    if schema is None and not (requires_approval(team, call) and team.may_call(turn.agent, call.tool_name)):
        return ""
    if time.thread_time() > until:
        limit = f"{MAX_CHECK_SECONDS:g} s"
        return f"not checked: the arguments of this answer's calls take more than {limit}; make fewer calls"
    if schema is None:
        return toolbox.call_error(team, call, listings)
    found = toolbox.args_error(schema, call.args)
    return f"wrong arguments: {found}" if found else ""
