"""answer_form: the agent whose answer has the form that a message demands.

the team's order ends after the agent ─► its turn has the form
any other agent ─► words; if the router then ends the work ─► one more turn of the agent, which has the form
"""

from typing import Any

from roboco.domain.decision.route import Route
from roboco.domain.decision.router import Router
from roboco.domain.history.state import AFTER_INVALID_OUTPUT, History, TaskState
from roboco.domain.history.step import ANSWER_FORM
from roboco.domain.team.collaboration import END, TO_USER, Custom, Graph, Manual, Sequential
from roboco.domain.team.team import Agent, Team

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
