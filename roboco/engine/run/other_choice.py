"""other_choice: how a turn asks for its reply after its model has failed.

too long ───────────────► the same profile, with half of the prompt, once
no credit, no model ────► the next profile of `fallback`
outage beyond its limit ► the next profile of `fallback`, at once
anything else ──────────► none: the turn waits, or fails
"""

import re

from roboco.domain.usage import Usage
from roboco.engine.coordinate import outage
from roboco.engine.run.claimed_turn import ClaimedTurn
from roboco.engine.run.request import Choice
from roboco.engine.usage import failed_usage, usage_at
from roboco.errors import ModelError

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
    profile = turn.team.profile(turn.team.agent(turn.claim.snapshot.position.agent))
    own = Choice(profile)
    if not _is_out(turn):
        return own
    reason = f"the outage of {profile.model} has lasted {turn.claim.snapshot.refusals.seconds:.0f} s"
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
    left = outage.seconds_to_fallback(turn.team, turn.claim.snapshot)
    return left is not None and left <= 0


def _next_profile(turn: ClaimedTurn, failed: Choice, reason: str, spent: Usage) -> Choice | None:
    """Return the choice of the profile after the failed one, or None if that was the last."""
    team = turn.team
    agent = team.agent(turn.claim.snapshot.position.agent)
    names = team.profile(agent).fallback
    tried = failed.fallback.get("profile")
    rest = names[names.index(tried) + 1 :] if tried in names else names
    if not rest:
        return None
    own = agent.model or team.default_profile or ""
    return Choice(team.models[rest[0]], {"profile": rest[0], "instead_of": own, "reason": reason[:400]}, spent=spent)


def _shorter(prompt_tokens: int, message: str) -> int:
    """Return the tokens of the next prompt: half, or less if the server has named a smaller limit."""
    named = [int(number) for number in _NAMED_LIMIT.findall(message)]
    limits = [int(number * _SAFETY) for number in named if MIN_PROMPT_TOKENS < number < prompt_tokens]
    return max(MIN_PROMPT_TOKENS, min([prompt_tokens // 2, *limits]))
