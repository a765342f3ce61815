"""following: what is to happen next, written down and handed out.

    step stored ─► decide (pure) ─► commit and choose ─► hand out
                                    (one write, fenced)

Who has stored a step does this itself where the next thing is a turn or are tool calls: a worker, and for the first
step of a task who submits it. That spares a message and a look of the coordinator. All else is the coordinator's: what
waits for the task, times to begin, routers of a user, ends, and folding. All decide by the same function, and only the
first of them writes it down.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from roboco.domain.builtin_tools import DELEGATE
from roboco.domain.decision.action import Action, CallTools, StartTurn
from roboco.domain.decision.decide import decide
from roboco.domain.decision.router import route
from roboco.domain.decision.situation import Situation
from roboco.domain.history.history import History
from roboco.domain.history.lineage import parent_of
from roboco.domain.history.priority import priority_of
from roboco.domain.history.start_time import ETA
from roboco.domain.ids import step_id_at, sub_task_id
from roboco.domain.inbox.item import Item
from roboco.domain.status import TaskStatus
from roboco.domain.stream.event import AgentHandedOff, AgentSelected, AnyEvent, StatusChanged, SubTaskBegun
from roboco.domain.team.collaboration import Custom
from roboco.domain.team.team import Team
from roboco.engine.coordinator.archive import fold_due
from roboco.engine.coordinator.custom_router import users_router
from roboco.engine.coordinator.pending import hand_out_call
from roboco.engine.engine import Engine
from roboco.engine.record.recover import COORDINATOR_TAIL
from roboco.ports import CallOrder, CallState, Choice, Commit, Phase, Snapshot, TurnOrder


def begin(engine: Engine, task_id: str, team: Team) -> bool:
    """Have the first turn of a task made that was just set up; False if the coordinator has to look."""
    task = engine.board.load(task_id, COORDINATOR_TAIL)
    if task is None or task.phase is not Phase.IDLE or task.seq != 1 or task.item_ids or ETA in task.first.metadata:
        return False
    place = Place(engine, task_id, team, task)
    action = place._decided_here()
    return action is not None and place.choose(action)


@dataclass(frozen=True)
class Place:
    """A task as it stands, with its team."""

    engine: Engine
    task_id: str
    team: Team
    task: Snapshot

    def decided(self, waiting: tuple[Item, ...] = (), exhausted: str | None = None) -> Action:
        """What is to happen next. `exhausted` says why the pending turn is given up."""
        engine, task = self.engine, self.task
        model = self.team.collaboration_model
        router = users_router(engine, self.task_id, model.router) if isinstance(model, Custom) else route
        limited = self.team.limits.raised(task.state.raised).max_seconds is not None
        started = engine.teams.began(self.task_id, task.state) if limited else None
        situation = Situation(
            inbox=waiting,
            outcomes={call_id: call.outcome for call_id, call in task.calls.items() if call.outcome is not None},
            seconds=engine.clock.now() - started.timestamp() if started else 0.0,
            exhausted=exhausted,
            sub_task=parent_of(self.task_id, task.first) is not None,
        )
        return decide(self.team, History(task.state, task.tail), situation, router)

    def choose(self, action: StartTurn | CallTools) -> bool:
        """Write the action down and hand it out; False, and nothing happens, if the fence has moved or an item came."""
        choice, events = self._written(action)
        choice = replace(choice, seen=frozenset(self.task.item_ids))
        epoch = self.engine.board.choose(self.task_id, self.task.epoch, choice, events)
        if epoch is None:
            return False
        self._hand_out(action, epoch)
        return True

    def commit(self, commit: Commit) -> bool:
        """Take over the step that was just stored at this place, and do what follows; False if somebody has to look."""
        step = commit.step
        tail = (*self.task.tail, step)[-COORDINATOR_TAIL:]
        after = replace(self.task, seq=step.seq + 1, state=commit.state, tail=tail, status=TaskStatus.RUNNING, calls={})
        place = replace(self, task=after)
        action = place._decided_here()
        if action is None:
            self.engine.board.commit(self.task_id, self.task.epoch, commit)
            return False
        choice, events = place._written(action)
        epoch = self.engine.board.commit_and_choose(self.task_id, self.task.epoch, commit, choice, events)
        if epoch is None:
            return False
        place._hand_out(action, epoch)
        return True

    def _decided_here(self) -> StartTurn | CallTools | None:
        """The turn or the calls that come next, if that is not for the coordinator to say."""
        task = self.task
        whole = len(task.tail) >= COORDINATOR_TAIL or task.tail[0].seq == 0
        visit = History(task.state, task.tail).visit
        if isinstance(self.team.collaboration_model, Custom) or fold_due(task.seq - 1):
            return None
        if not whole and len(visit) == len(task.tail):  # the coordinator sees more of it
            return None
        match self.decided():
            case StartTurn() as action:
                return action
            case CallTools() as action if all(call.tool_name != DELEGATE for call in action.calls):
                return action
            case _:
                return None

    def _written(self, action: StartTurn | CallTools) -> tuple[Choice, Sequence[AnyEvent]]:
        return self._turn_written(action) if isinstance(action, StartTurn) else self._calls_written(action)

    def _turn_written(self, action: StartTurn) -> tuple[Choice, Sequence[AnyEvent]]:
        task_id, now, routing = self.task_id, self.engine.now(), action.route.record()
        reason, source = action.route.reason, action.handed_off_by
        events: list[AnyEvent] = []
        if self.task.status is not TaskStatus.RUNNING:
            events.append(StatusChanged(task_id=task_id, timestamp=now, status=TaskStatus.RUNNING, reason=""))
        if source is not None:
            events.append(
                AgentHandedOff(task_id=task_id, timestamp=now, from_agent=source, to_agent=action.agent, reason=reason)
            )
        events.append(
            AgentSelected(
                task_id=task_id,
                timestamp=now,
                agent_name=action.agent,
                step_id=step_id_at(task_id, self.task.seq),
                reason=reason,
                routing=routing,
            )
        )
        return Choice(Phase.TURN, TaskStatus.RUNNING, agent=action.agent, routing=routing), events

    def _calls_written(self, action: CallTools) -> tuple[Choice, Sequence[AnyEvent]]:
        task_id, now = self.task_id, self.engine.now()
        given_away = [call for call in action.calls if call.tool_name == DELEGATE]
        children = [sub_task_id(task_id, call.id) for call in given_away]
        reason = f"other teams work for it: {', '.join(children)}" if len(given_away) == len(action.calls) else ""
        events: list[AnyEvent] = [
            SubTaskBegun(
                task_id=task_id, timestamp=now, tool_call_id=call.id, sub_task_id=child, team=str(call.args["team"])
            )
            for call, child in zip(given_away, children, strict=True)
        ]
        if reason or self.task.status is not TaskStatus.RUNNING:
            events.append(StatusChanged(task_id=task_id, timestamp=now, status=TaskStatus.RUNNING, reason=reason))
        return Choice(Phase.TOOLS, TaskStatus.RUNNING, reason, agent=self.task.tail[-1].agent_name), events

    def _hand_out(self, action: StartTurn | CallTools, epoch: int) -> None:
        engine, task_id, task = self.engine, self.task_id, self.task
        engine.schedule.put(task_id, engine.policy.ring_pause)
        priority = priority_of(task.first)
        if isinstance(action, StartTurn):
            engine.dispatcher.turn(TurnOrder(task_id, task.seq, epoch, 1, priority), action.agent)
            return
        for call in action.calls:
            attempt = task.calls.get(call.id, CallState()).attempt
            hand_out_call(
                engine, self.team, task, CallOrder(task_id, task.seq - 1, epoch, call.id, attempt, priority), call
            )
