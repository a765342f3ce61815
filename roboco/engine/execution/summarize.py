"""minutes: the summary of the older steps of a history, made once for each range and kept in the workspace.

    the one before ─► limits, rates ─► model ─► summaries/UNTIL-KEY.json ─► this turn, and all later ones
    (or none)         (or the turn waits)       (create: the first wins)

A death on the way costs one call of the model. A model that fails leaves the turn without a summary, and its receipt
says so; the next turn tries again. What a summary has used is charged to the first step that is committed after it.
"""

from dataclasses import dataclass, field, replace
from itertools import islice

from roboco.domain.canonical_json import canonical, sha256
from roboco.domain.decision.budget import reserve
from roboco.domain.history.state import WRAPS_UP
from roboco.domain.paths import history_summaries_path, history_summary_path
from roboco.domain.prompt.summary import HistorySummary, summarised_until, summary_messages
from roboco.domain.team.context_policy import SummaryContext
from roboco.domain.team.model_profile import ModelProfile
from roboco.domain.team.team import Team
from roboco.domain.tokens import estimate_tokens
from roboco.domain.usage import Spent
from roboco.engine.engine import Engine
from roboco.engine.execution.cancellation import Ending
from roboco.engine.record.rate_tickets import summary_profile, summary_ticket
from roboco.engine.usage import spent_on
from roboco.errors import ModelError
from roboco.ports import Reply, Request, TurnClaim

REFUSALS = 8
"""How often a turn is given back because its model's server is at its rate limit, until that counts as a failure."""
MOST_AT_ONCE = 4
"""How many summaries one turn makes at most: a long history that has none gets them turn by turn."""


@dataclass(frozen=True)
class Minutes:
    """The summary of the older steps for a turn, if there is one; `why_not` says why a newer one could not be made.

    `spent` is what summaries have used that no step was charged for. `refused` says which limit forbids the turn. Where
    the `profile` that sums up is at its rate, `error` says so, or the turn has to `wait` for so many seconds.
    """

    summary: HistorySummary | None = None
    why_not: str = ""
    spent: Spent = field(default_factory=Spent)
    refused: str = ""
    wait: float = 0.0
    error: ModelError | None = None
    profile: ModelProfile | None = None

    def charged(self) -> dict[str, object]:
        """What the metadata of the step that is charged for them says."""
        until = 0 if self.summary is None else self.summary.until
        return {"summarised_until": until} if self.spent.steps else {}


def minutes_for(engine: Engine, team: Team, claim: TurnClaim, ending: Ending) -> Minutes:
    """The summary that the turn sends, made now if it was not made before."""
    agent = team.agent(claim.task.agent)
    policy = agent.context
    until = summarised_until(policy, claim.task.seq) if isinstance(policy, SummaryContext) else 0
    if not isinstance(policy, SummaryContext) or until == 0:
        return Minutes()
    name, profile = summary_profile(team, agent.name, policy)
    return _Maker(engine, team, policy, name, profile).minutes(claim, ending, until)


@dataclass(frozen=True)
class _Maker:
    """Makes summaries with one profile."""

    engine: Engine
    team: Team
    policy: SummaryContext
    name: str
    profile: ModelProfile

    def minutes(self, claim: TurnClaim, ending: Ending, until: int) -> Minutes:
        """The summary before this position, made of the newest one that there is."""
        last, start = self._newest(claim, until)
        found = self._with_spent(claim, last)
        if claim.task.routing.get("rule") == WRAPS_UP:  # the last turn, at a limit: nothing more is spent for it
            return found
        for _ in range(MOST_AT_ONCE):
            if start >= until or ending.asked:
                break
            start += self.policy.steps
            found = self._after(claim, ending, found, start)
            if found.why_not or found.refused or found.wait or found.error:
                break
        return found

    def _newest(self, claim: TurnClaim, until: int) -> tuple[HistorySummary | None, int]:
        """The newest summary up to this position, and its position; 0 if there is none."""
        for start in (until, until - self.policy.steps):
            if start > 0 and (stored := self._stored(claim, start)) is not None:
                return stored, start
        names = self.engine.files.names(history_summaries_path(claim.order.task_id))
        there = [int(name[:8]) for name in names if name.endswith(f"-{self._key}.json") and int(name[:8]) <= until]
        last = self._stored(claim, max(there)) if there else None
        return last, 0 if last is None else last.until

    def _with_spent(self, claim: TurnClaim, last: HistorySummary | None) -> Minutes:
        """The summary with what it and those before it have used, as far as no step was charged for them."""
        spent, until = Spent(), 0 if last is None else last.until
        while until > claim.task.state.summarised_until:
            stored = self._stored(claim, until)
            spent = spent.plus(stored.spent) if stored is not None else spent
            until -= self.policy.steps
        return Minutes(last, spent=spent)

    def _after(self, claim: TurnClaim, ending: Ending, before: Minutes, until: int) -> Minutes:
        """The next summary after one; or that one, and why there is no next one."""
        task_id, state = claim.order.task_id, claim.task.state
        begin = 0 if before.summary is None else before.summary.until
        steps = tuple(islice(self.engine.histories.read(task_id, begin), until - begin))
        messages = summary_messages(self.policy, "" if before.summary is None else before.summary.text, steps)
        tokens, most = estimate_tokens(canonical(list(messages))), 2 * self.policy.tokens
        limits, spent = self.team.limits.raised(state.raised), before.spent.plus(spent_on(self.team, claim.task))
        so_far = state.having_spent(claim.task.agent, spent)
        reserved = reserve(limits, so_far, claim.task.agent, self.profile, tokens)
        if reserved.refused:
            return replace(before, refused=reserved.refused)
        ticket = summary_ticket(self.team, task_id, claim.task, until)
        if (wait := self.engine.rates.reserve(self.profile, ticket, tokens + most)) > 0:
            return replace(before, wait=wait, profile=self.profile)
        request = Request(self.profile, messages, (), max_tokens=min(filter(None, (most, reserved.max_tokens))))
        texts: list[str] = []
        try:
            text, reply = self._answer(request, ending, texts)
        except ModelError as error:
            if error.code == "rate_limit" and claim.task.refusals < REFUSALS:
                return replace(before, error=error, profile=self.profile)
            used = before.spent.plus(self._broken(tokens, texts))
            return replace(before, why_not=f"the summary could not be made: {error}", spent=used)
        return self._kept(claim, before, until, text, reply)

    def _kept(self, claim: TurnClaim, before: Minutes, until: int, text: str, reply: Reply) -> Minutes:
        spent = Spent(
            steps=1,
            tokens_in=reply.tokens_in,
            tokens_out=reply.tokens_out,
            seconds=reply.duration_ms / 1000,
            cost=self.profile.cost(reply.tokens_in, reply.tokens_out),
        )
        made = HistorySummary(until=until, text=text, profile=self.name, spent=spent)
        self.engine.files.create(self._path(claim, until), made.model_dump_json().encode())
        return Minutes(self._stored(claim, until) or made, spent=before.spent.plus(spent))

    def _broken(self, tokens: int, texts: list[str]) -> Spent:
        """What an answer has used that broke, by an estimate; nothing if it had not begun."""
        said = estimate_tokens("".join(texts))
        return Spent(tokens_in=tokens, tokens_out=said, cost=self.profile.cost(tokens, said)) if texts else Spent()

    def _answer(self, request: Request, ending: Ending, texts: list[str]) -> tuple[str, Reply]:
        stream = self.engine.model.stream(request)
        ending.of(stream)
        try:
            for piece in stream:
                if isinstance(piece, Reply):
                    if text := "".join(texts).strip():
                        return text, piece
                    raise ModelError("empty", f"model {request.profile.model!r} said nothing", False)
                texts.append(piece)
        finally:
            stream.close()
        raise ModelError("ended", "it was ended before it was done", False)

    def _stored(self, claim: TurnClaim, until: int) -> HistorySummary | None:
        data = self.engine.files.get(self._path(claim, until))
        return None if data is None else HistorySummary.model_validate_json(data)

    def _path(self, claim: TurnClaim, until: int) -> str:
        return history_summary_path(claim.order.task_id, until, self._key)

    @property
    def _key(self) -> str:
        """What stands for the way in which these summaries are made."""
        return sha256(canonical([self.policy.steps, self.policy.tokens, self.name, self.profile.model]))[:8]
