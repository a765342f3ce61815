"""The checks of answers: the guards of the user's messages and of agents' answers, and the form that a message demands.

    message ─► step of calls ─► tools workers, sub-tasks ─► step of results, with verdicts ─► turn
               (orchestrator)                                └─► refused ─► error, or answer ─► end

    reply ─► step of the agent: calls of the guards ─► step of results, with verdicts ─► passed: the agent's answer
    (worker)  (the text is their argument)              (and with a passed answer)    └─► refused: error or new answer

No agent has a turn before the guards of the message have passed; no user, and no other agent, sees an answer before
its guards have. Their calls run as any others, with the same claims, time limits, attempts and interruptions. Routers
and agents do not see the steps of an input's guards. A refused message ends the task for good, so that no later turn
sees it: forks and retries that contain it end, too. If the calls for an answer were ended from outside, without a
verdict, the answer is discarded, and routers and agents see the task as before the turn.

The form of an answer, which a message may demand:

    the team's order ends after the agent ─► its turn has the form
    any other agent ─► words; if the router then ends the work ─► one more turn of the agent, which has the form
"""

from collections.abc import Mapping, Sequence
from typing import Any

from roboco.domain.builtin_tools import DELEGATE
from roboco.domain.canonical_json import canonical_json
from roboco.domain.decision.action import AppendStep, End, Route, Situation, error_step
from roboco.domain.decision.router import Router
from roboco.domain.history.part import ErrorPart, Part, TextPart, ToolCall, ToolCallPart, ToolOutcome
from roboco.domain.history.state import AFTER_INVALID_OUTPUT, History
from roboco.domain.history.step import (
    ANSWER_FORM,
    DRAFT,
    GUARDED,
    GUARDS,
    INVALID_OUTPUT,
    ORCHESTRATOR,
    OUTPUT,
    PROVIDER,
    REASONING,
    REFUSED,
    STATE,
    USER,
    TaskStep,
)
from roboco.domain.history.task_state import TaskState
from roboco.domain.ids import call_id_at
from roboco.domain.inbox.item import blocking_pause
from roboco.domain.status import TaskStatus
from roboco.domain.team.collaboration import END, TO_USER, Custom, Graph, Manual, Sequential
from roboco.domain.team.guards import Guards, verdict_of
from roboco.domain.team.team import Agent, Team

GUARD = "guard"
"""The code of the error of a refused message, and the rule of the answer to it."""
_SEEN_BY_AGENTS = ("client_context", "answer_form", "goals", "client_tools", "state")
"""The attachments of a message that prompts of agents may contain, in the order in which guards see them."""
_OF_ANSWER = (OUTPUT, STATE, INVALID_OUTPUT, PROVIDER)
"""The metadata of a model's step that belongs to its answer."""
_QUOTING_ERRORS = frozenset({"malformed_tool_call", "refused", INVALID_OUTPUT})
"""The codes of errors whose messages quote the model."""


def next_for_guards(team: Team, history: History, situation: Situation) -> AppendStep | End | None:
    """Return the action that the guards of the team require before any turn, or None if there is none.

    A message that interrupts becomes a step first: the guards then decide on both. Those of a paused task wait.
    """
    guards, state = team.guards, history.state
    if guards is None:
        return None
    if state.refused:  # each accepted message becomes a step before the end
        return None if situation.next_user_item(held=False) else _refusal(team, guards, history)
    held = state.interrupted or situation.interruption or blocking_pause(situation.inbox, state.steps)
    if state.unguarded is None or held or not guards.input:
        return None
    if state.unguarded < history.tail[0].seq:
        return error_step(GUARD, "too many messages came before the guards could decide")
    messages = [step for step in history.tail if step.seq >= state.unguarded and step.agent_name == USER]
    text, newest = "\n\n".join(map(_guarded_text, messages)), messages[-1]
    origin = str(newest.metadata.get("item_id") or newest.step_id)
    calls = guard_calls(team, guards.input, text, (origin, state.steps))
    return AppendStep(ORCHESTRATOR, calls, {GUARDS: {"input": list(guards.input)}})


def guard_verdicts(step: TaskStep, outcomes: Sequence[ToolOutcome]) -> dict[str, Any]:
    """Return the verdict of each guard that the step has called, and that of all together."""
    names = [str(call.args.get("team")) if call.tool_name == DELEGATE else call.tool_name for call in step.calls]
    verdicts = {name: verdict_of(one.result) for name, one in zip(names, outcomes, strict=True)}
    refused = {name: one for name, one in verdicts.items() if not one["passed"]}
    reason = "; ".join(f"{name}: {one['reason'] or 'refused'}" for name, one in refused.items())
    failed = any(one.get("failed") for one in refused.values())
    about = {"passed": not refused, "verdicts": verdicts} | ({"answer_of": step.agent_name} if step.is_draft else {})
    return about | ({"reason": reason, "failed": failed} if refused else {})


def guard_calls(team: Team, names: Sequence[str], text: str, position: tuple[str, int]) -> tuple[ToolCallPart, ...]:
    """Return a call of each guard, with an id that derives from its position. A tool precedes a team of its name."""
    calls = []
    for index, name in enumerate(names):
        is_tool = team.tool(name) is not None
        args = {"text": text} if is_tool else {"team": name, "prompt": text}
        call_id = call_id_at(*position, index, name, args)
        calls.append(ToolCallPart(tool_call=ToolCall(id=call_id, tool_name=name if is_tool else DELEGATE, args=args)))
    return tuple(calls)


def _guarded_text(message: TaskStep) -> str:
    """Return the text of the message, and a line of JSON for each of its attachments that agents may see."""
    attached = {name: message.metadata[name] for name in _SEEN_BY_AGENTS if message.metadata.get(name)}
    return "\n\n".join((message.text, *(f"{name}: {canonical_json(value)}" for name, value in attached.items())))


def _refusal(team: Team, guards: Guards, history: History) -> AppendStep | End:
    """Return the end of a task whose message or answer was refused, or the step that precedes it."""
    refused = history.state.refused
    reason, author = str(refused.get("reason")), refused.get("answer_of")
    what = "the message" if author is None else f"the answer of {author}"
    failed = refused.get("failed") and guards.on_error == "fail"
    if guards.on_refusal == "end" or failed:
        return error_step(GUARD, f"{'a guard failed' if failed else f'{what} was refused'}: {reason}")
    if REFUSED in history.last.metadata:
        return End(TaskStatus.COMPLETED, f"{what} was refused: {reason}")
    last = author or history.state.last_agent
    agent = last if last is not None and team.has_agent(last) else team.initial_agent
    routing = Route(agent, team.collaboration_model.type, GUARD, f"guards refused {what}: {reason}").record()
    return AppendStep(agent, (TextPart(text=guards.on_refusal.answer),), {REFUSED: reason, "routing": routing})


def held_back(
    team: Team, agent: str, position: tuple[str, int], parts: tuple[Part, ...], metadata: Mapping[str, object]
) -> tuple[tuple[Part, ...], dict[str, object]]:
    """Return parts and metadata of an agent's step without its text. If that is an answer, guards are called with it.

    `position` is the task's id and the position of the step. The text beside calls, of an interrupted reply and of a
    failed one is dropped, and so are reasoning and refusals.
    """
    text = "".join(part.text for part in parts if isinstance(part, TextPart))
    others = tuple(_without_words(agent, part) for part in parts if not isinstance(part, TextPart))
    about = {name: value for name, value in metadata.items() if name not in (REASONING, "refusal")}
    if others or not text or metadata.get("interrupted"):
        return others or (TextPart(text=""),), about
    names = () if team.guards is None else team.guards.output
    draft = {name: about.pop(name) for name in _OF_ANSWER if name in about}
    return guard_calls(team, names, text, position), about | {GUARDS: {"output": list(names)}, DRAFT: draft}


def passed_answer(step: TaskStep) -> dict[str, Any]:
    """Return the answer that the guards of this step have passed, as the step of results records it."""
    [text] = {call.args.get("text", call.args.get("prompt")) for call in step.calls}
    metadata = {"routing": step.metadata["routing"], GUARDED: step.metadata[GUARDS]["output"]}
    return {"agent": step.agent_name, "text": text, "metadata": metadata | step.metadata[DRAFT]}


def _without_words(agent: str, part: Part) -> Part:
    """Return the part, or the error without the words of the model."""
    if isinstance(part, ErrorPart) and part.code in _QUOTING_ERRORS:
        return ErrorPart(
            code=part.code, message=f"{agent}: its model gave no answer; its words did not pass the guards"
        )
    return part


_OF_FORM = (ANSWER_FORM, AFTER_INVALID_OUTPUT)


def form_of_turn(team: Team, agent: Agent, state: TaskState, rule: str) -> dict[str, Any]:
    """Return the form of the agent's answer in a turn that this rule has chosen; {} if it is free."""
    asked = rule in _OF_FORM or _ends_work(team, agent, state)
    return state.answer_form if asked else {}


def with_form(agent: Agent, form: dict[str, Any]) -> Agent:
    """Return the agent with the form's schema as its type of output, unless it has one already."""
    if agent.output is not None or "schema" not in form:
        return agent
    return agent.model_copy(update={"output": form["schema"]})


def lacks_form(team: Team, history: History) -> bool:
    """Return True if the last step is an answer without the form that the message demands, and a model can give it."""
    form, last = history.state.answer_form, history.last
    if not last.by_agent or last.interrupted or not team.has_agent(last.agent_name):
        return False
    wanted = form.get("calls") == "required" or ("schema" in form and not last.has_output)
    return wanted and team.agent(last.agent_name).has_model


def route_after_form(router: Router) -> Router:
    """Return the router for a history whose last turn may only have given the form to an answer.

    It then chooses the end that was due before that turn: the conditions of the team are about words.
    """

    def choose(team: Team, history: History) -> Route:
        routing = history.last.metadata.get("routing") or {}
        due = routing.get("candidates")
        if not history.last.by_agent or routing.get("rule") not in _OF_FORM or due not in ([END], [TO_USER]):
            return router(team, history)
        return Route(due[0], team.collaboration_model.type, ANSWER_FORM, "the answer has the form that was demanded")

    return choose


def _ends_work(team: Team, agent: Agent, state: TaskState) -> bool:
    """Return True if the work ends after an answer of the agent, whatever the answer is."""
    match team.collaboration_model:
        case Sequential() as model:
            return agent.name == team.agents[-1].name and state.turns.get(agent.name, 0) + 1 >= model.rounds
        case Manual():
            return True
        case Graph() as model:
            return all(edge.to in (END, TO_USER) for edge in model.routing_graph.get(agent.name, ()))
        case Custom():
            return False
