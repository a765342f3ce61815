"""minutes: the summary of the older steps of a history, made once for each range and kept in the workspace.

    the one before ─► model ─► summaries/UNTIL-KEY.json ─► this turn, and all later ones
    (or none)                  (create: the first wins)

A death on the way costs one call of the model. A model that fails leaves the turn without a summary, and its receipt
says so; the next turn tries again.
"""

from itertools import islice

from roboco.domain.canonical import canonical, sha256
from roboco.domain.context_policy import SummaryContext
from roboco.domain.history_summary import HistorySummary, summarised_until, summary_messages
from roboco.domain.model_profile import ModelProfile
from roboco.domain.paths import history_summary_path
from roboco.domain.spent import Spent
from roboco.domain.team import Team
from roboco.engine.compose import Minutes
from roboco.engine.ending import Ending
from roboco.engine.engine import Engine
from roboco.errors import ModelError
from roboco.ports import Reply, Request, TurnClaim


def minutes_for(engine: Engine, team: Team, claim: TurnClaim, ending: Ending) -> Minutes:
    """The summary that the turn sends, made now if it was not made before."""
    agent = team.agent(claim.task.agent)
    policy = agent.context
    until = summarised_until(policy, claim.task.seq) if isinstance(policy, SummaryContext) else 0
    if not isinstance(policy, SummaryContext) or until == 0:
        return Minutes()
    name = policy.model or agent.model or team.default_profile or ""
    maker = _Maker(engine, policy, name, team.models.get(name) or team.profile(agent), claim, ending)
    return maker.minutes(until)


class _Maker:
    """Makes summaries for one turn."""

    def __init__(
        self,
        engine: Engine,
        policy: SummaryContext,
        name: str,
        profile: ModelProfile,
        claim: TurnClaim,
        ending: Ending,
    ) -> None:
        self._engine = engine
        self._policy = policy
        self._name = name
        self._profile = profile
        self._task_id = claim.order.task_id
        self._ending = ending
        self._key = sha256(canonical([policy.steps, policy.tokens, name, profile.model]))[:8]
        self._spent = Spent()

    def minutes(self, until: int) -> Minutes:
        """The summary before this position, made of the newest one that there is."""
        last, start = self._stored(until), until
        while last is None and start > 0:
            start -= self._policy.steps
            last = self._stored(start) if start > 0 else None
        try:
            while start < until and not self._ending.asked:
                start += self._policy.steps
                last = self._made(last, start)
        except ModelError as error:
            return Minutes(why_not=f"the summary could not be made: {error}", spent=self._spent)
        return Minutes(last, spent=self._spent)

    def _made(self, before: HistorySummary | None, until: int) -> HistorySummary:
        begin = 0 if before is None else before.until
        steps = tuple(islice(self._engine.histories.read(self._task_id, begin), until - begin))
        messages = summary_messages(self._policy, "" if before is None else before.text, steps)
        text, reply = self._answer(Request(self._profile, messages, (), max_tokens=2 * self._policy.tokens))
        spent = Spent(
            steps=1,
            tokens_in=reply.tokens_in,
            tokens_out=reply.tokens_out,
            seconds=reply.duration_ms / 1000,
            cost=self._profile.cost(reply.tokens_in, reply.tokens_out),
        )
        self._spent = self._spent.plus(spent)
        made = HistorySummary(until=until, text=text, digest=steps[-1].digest, profile=self._name, spent=spent)
        self._engine.files.create(self._path(until), made.model_dump_json().encode())
        return self._stored(until) or made

    def _answer(self, request: Request) -> tuple[str, Reply]:
        stream = self._engine.model.stream(request)
        self._ending.of(stream)
        texts: list[str] = []
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

    def _stored(self, until: int) -> HistorySummary | None:
        data = self._engine.files.get(self._path(until))
        return None if data is None else HistorySummary.model_validate_json(data)

    def _path(self, until: int) -> str:
        return history_summary_path(self._task_id, until, self._key)
