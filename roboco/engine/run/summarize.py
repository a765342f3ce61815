"""summarize: the summary of the older steps of a history, made once for each range and kept in the workspace.

    last summary ─► limits, rates ─► search ─► model ─► summaries/UNTIL-KEY.json ─► this turn, and all later ones
    (or none)       (or the turn waits)                 (create: the first wins)

The search finds what the newest message asks for. Its passages are kept word for word in the summary, and so in every
prompt that has it. The next summary has others.

If the worker dies on the way, one model call is lost. If the model fails, the turn runs without the new summary, its
context receipt gives the reason, and the next turn tries again. The first step committed after a summary is charged
for its usage.
"""

import logging
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from roboco.domain.builtin_tools import MEMORY_SEARCH
from roboco.domain.canonical_json import canonical_json, sha256
from roboco.domain.decision.budget import reserve
from roboco.domain.history.part import ToolCall
from roboco.domain.history.state import WRAP_UP_RULE
from roboco.domain.history.step import USER
from roboco.domain.paths import history_summaries_path, history_summary_path
from roboco.domain.prompt.chat import ChatMessage
from roboco.domain.prompt.working_memory import HistorySummary, summary_end, summary_messages
from roboco.domain.team.context_policy import SummaryContext
from roboco.domain.team.model_profile import ModelProfile
from roboco.domain.tokens import estimate_tokens
from roboco.domain.usage import Usage
from roboco.engine.record.rate_tickets import summary_profile, summary_ticket
from roboco.engine.run.claimed_turn import ClaimedTurn
from roboco.engine.usage import failed_usage, unfinished_usage, usage_at
from roboco.errors import ModelError, TransientError
from roboco.ports.model import Reply, Request
from roboco.ports.rate_limits import Queued
from roboco.ports.tools import ToolContext

MAX_THROTTLED = 8
"""Times that a turn is deferred because its model server is at its rate limit, until that counts as a failure."""
MAX_SUMMARIES_PER_TURN = 4
"""Summaries that one turn makes at most: a long history that has none gets them turn by turn."""
MAX_PASSAGES = 5
"""Passages that a summary keeps word for word, each of at most 240 characters."""
_MAX_QUERY_CHARS = 1000
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Ready:
    """The newest summary that the turn can send."""

    summary: HistorySummary | None = None
    """The summary, or None if the history is short, has none yet, or its agent's context needs none."""
    usage: Usage = field(default_factory=Usage)
    """The usage of summaries that no step was charged for."""

    def metadata(self) -> dict[str, object]:
        """Return the metadata of the step that is charged for the summaries; empty if there is nothing to charge."""
        until = 0 if self.summary is None else self.summary.until
        return {"summarized_until": until} if self.usage.steps else {}


@dataclass(frozen=True)
class Deferred:
    """The next summary waits: the rate limits that Roboco keeps allow its request later."""

    ready: Ready
    profile: ModelProfile
    seconds: float


@dataclass(frozen=True)
class Throttled:
    """The next summary waits: the model server refused its request because of the provider's rate limit."""

    ready: Ready
    profile: ModelProfile
    error: ModelError


@dataclass(frozen=True)
class Refused:
    """A limit of the task forbids the next summary, and thereby the turn."""

    ready: Ready
    limit: str


@dataclass(frozen=True)
class Failed:
    """The model failed to make the next summary. The turn runs without it."""

    ready: Ready
    reason: str


SummaryResult = Ready | Deferred | Throttled | Refused | Failed
"""The summary of a turn. The other classes hold, as `ready`, the newest summary that was stored before."""


def ready_of(result: SummaryResult) -> Ready:
    """Return the newest summary that the turn can send, whatever came of the next one."""
    return result if isinstance(result, Ready) else result.ready


def summary_for(turn: ClaimedTurn) -> SummaryResult:
    """Return the summary that the turn sends. If it was not made before, make it now."""
    policy = turn.agent.context
    until = summary_end(policy, turn.task.position.seq) if isinstance(policy, SummaryContext) else 0
    if not isinstance(policy, SummaryContext) or until == 0:
        return Ready()
    return _Summarizer(turn, policy, *summary_profile(turn.team, turn.agent.name, policy)).summarize(until)


@dataclass(frozen=True)
class _Summarizer:
    """Makes the summaries of one turn with one model profile, whose name in the team is `profile_name`."""

    turn: ClaimedTurn
    policy: SummaryContext
    profile_name: str
    profile: ModelProfile

    def summarize(self, until: int) -> SummaryResult:
        """Return the summary of the steps before this position, made from the newest one that is stored."""
        last, start = self._newest(until)
        ready = Ready(last, self._uncharged_usage(last))
        if self.turn.rule == WRAP_UP_RULE:  # the last turn, at a limit: spend nothing more
            return ready
        for _ in range(MAX_SUMMARIES_PER_TURN):
            if start >= until or self.turn.cancellation.requested:
                break
            start += self.policy.steps
            result = self._next(ready, start)
            if not isinstance(result, Ready):
                return result
            ready = result
        return ready

    def _newest(self, until: int) -> tuple[HistorySummary | None, int]:
        """Return the newest stored summary up to this position, and its position; None and 0 if there is none."""
        for start in (until, until - self.policy.steps):
            if start > 0 and (stored := self._stored(start)) is not None:
                return stored, start
        names = self.turn.engine.workspace.files.names(history_summaries_path(self.turn.task_id))
        there = [int(name[:8]) for name in names if name.endswith(f"-{self._key}.json") and int(name[:8]) <= until]
        last = self._stored(max(there)) if there else None
        return last, 0 if last is None else last.until

    def _uncharged_usage(self, last: HistorySummary | None) -> Usage:
        """Return the usage of the stored summaries that no step was charged for."""
        usage, until = Usage(), 0 if last is None else last.until
        while until > self.turn.task.state.summarized_until:
            stored = self._stored(until)
            usage = usage.plus(stored.usage) if stored is not None else usage
            until -= self.policy.steps
        return usage

    def _next(self, ready: Ready, until: int) -> SummaryResult:
        """Make the summary up to this position out of the last one. Return it, or why it is not made."""
        task, team = self.turn.task, self.turn.team
        messages = self._messages(ready.summary, until)
        tokens_in, max_tokens = estimate_tokens(canonical_json(list(messages))), 2 * self.policy.tokens
        so_far = task.state.plus_usage(task.position.agent, ready.usage.plus(unfinished_usage(team, task)))
        limits = team.limits.with_overrides(task.state.limit_overrides)
        reserved = reserve(limits, so_far, task.position.agent, self.profile, tokens_in)
        if reserved.refused:
            return Refused(ready, reserved.refused)
        ticket = summary_ticket(team, self.turn.task_id, task, until)
        admission = self.turn.engine.services.rate_limiter.reserve(self.profile, ticket, tokens_in + max_tokens)
        if isinstance(admission, Queued):
            return Deferred(ready, self.profile, admission.seconds)
        kept = self._asked_for(until)
        most = min(filter(None, (max_tokens, reserved.max_tokens)))
        request = Request(self.profile, messages, (), max_tokens=most, tenant=ticket.tenant)
        texts: list[str] = []
        try:
            reply = self._call_model(request, texts)
        except ModelError as error:
            if error.code == "rate_limit" and task.refusals.count < MAX_THROTTLED:
                return Throttled(ready, self.profile, error)
            usage = ready.usage.plus(usage_at(self.profile, failed_usage(error)))
            return Failed(Ready(ready.summary, usage), f"the summary could not be made: {error}")
        return self._store(ready, until, "".join(texts).strip(), reply, kept)

    def _messages(self, last: HistorySummary | None, until: int) -> tuple[ChatMessage, ...]:
        start = 0 if last is None else last.until
        steps = islice(self.turn.engine.workspace.histories.read(self.turn.task_id, start), until - start)
        return summary_messages(self.policy, "" if last is None else last.text, tuple(steps))

    def _call_model(self, request: Request, texts: list[str]) -> Reply:
        """Append the texts of the model to `texts` and return its reply; ModelError if it has no text or no end."""
        stream = self.turn.engine.services.call_model(request, None)
        self.turn.progress.follow(request.profile, stream)
        self.turn.cancellation.attach(stream)
        try:
            for piece in stream:
                if isinstance(piece, Reply):
                    if "".join(texts).strip():
                        return piece
                    why = f": {piece.refusal or piece.mistake}" if piece.refusal or piece.mistake else ""
                    message = f"model {request.profile.model!r} said nothing ({piece.finish_reason}){why}"
                    raise ModelError("empty", message, False, None, piece.tokens_in, piece.tokens_out)
                texts.append(piece)
        finally:
            stream.close()
        raise ModelError("ended", "it was ended before it was done", False)

    def _asked_for(self, until: int) -> tuple[str, ...]:
        """Return the passages before this position that the search finds for the newest message of the user."""
        turn, steps = self.turn, self.turn.task.steps
        asked = next((step for step in reversed(steps.tail) if step.agent_name == USER and step.text), steps.first)
        args = {"query": asked.text[:_MAX_QUERY_CHARS], "limit": 4 * MAX_PASSAGES}
        call = ToolCall(id=f"tc_{until}", tool_name=MEMORY_SEARCH, args=args)
        context = ToolContext(turn.task_id, turn.agent.name, call.id, call.id, 1, step_id=asked.step_id)
        try:
            found: Any = turn.engine.services.toolbox.run(turn.team, call, None, context).result.result
        except TransientError as error:
            _log.warning("a summary of task %s keeps no passages: %s", context.task_id, error)
            return ()
        hits = found["hits"] if isinstance(found, dict) else found or []  # None of a search that failed
        lines = [f"[step {hit['seq']}, {hit['agent_name']}] {hit['snippet']}" for hit in hits if 0 < hit["seq"] < until]
        return tuple(lines[:MAX_PASSAGES])

    def _store(self, ready: Ready, until: int, text: str, reply: Reply, kept: tuple[str, ...]) -> Ready:
        """Store the summary. If another attempt has stored one, return that one with the usage of both."""
        used = {"steps": 1, "seconds": reply.duration_ms / 1000}
        usage = usage_at(self.profile, reply.usage).model_copy(update=used)
        made = HistorySummary(until=until, text=text, profile=self.profile_name, usage=usage, kept=kept)
        self.turn.engine.workspace.files.create(self._path(until), made.model_dump_json().encode())
        return Ready(self._stored(until) or made, ready.usage.plus(usage))

    def _stored(self, until: int) -> HistorySummary | None:
        data = self.turn.engine.workspace.files.get(self._path(until))
        return None if data is None else HistorySummary.model_validate_json(data)

    def _path(self, until: int) -> str:
        return history_summary_path(self.turn.task_id, until, self._key)

    @property
    def _key(self) -> str:
        """The key of the settings that make these summaries: others make other summaries of the same steps."""
        made_by = [self.policy.steps, self.policy.tokens, self.profile_name, self.profile.model]
        return sha256(canonical_json(made_by))[:8]
