"""prompt: the variables that the template of an agent's prompt may use."""

from collections.abc import Mapping, Sequence
from typing import Any

from roboco.domain.history.step import OUTPUT, PROMPT, TaskStep
from roboco.domain.history.task_state import TaskState
from roboco.domain.team.team import Agent, Team
from roboco.engine.history_tail import step_at
from roboco.ports.histories import Histories
from roboco.templates.templates import JinjaPrompts


def render_prompt(
    prompts: JinjaPrompts, team: Team, agent: Agent, task_id: str, first: TaskStep, shared: Mapping[str, Any]
) -> str:
    """Return the agent's prompt for this task. `shared` has the newest outputs by agent, `output`, and the `state`.

    Raise UsageError if its template uses an undefined variable; see `is_too_early` for a part of `shared`.
    """
    return prompts.render(agent.prompt, _variables(team, agent, task_id, first) | dict(shared))


def newest_outputs(
    histories: Histories, agent: Agent, task_id: str, state: TaskState, tail: Sequence[TaskStep]
) -> dict[str, Any]:
    """Return the newest typed output of each agent, if the agent's prompt mentions outputs; else {}.

    Cost: one read of the history for each output that is older than the tail.
    """
    if "output" not in agent.prompt:
        return {}
    return {name: step_at(histories, task_id, tail, seq).metadata[OUTPUT] for name, seq in state.outputs.items()}


def _variables(team: Team, agent: Agent, task_id: str, first: TaskStep) -> dict[str, Any]:
    return {
        "task": {"id": task_id, "prompt": first.metadata.get(PROMPT, first.text)},
        "team": {
            "name": team.name,
            "description": team.description,
            "agents": [{"name": member.name, "description": member.description} for member in team.agents],
        },
        "agent": {"name": agent.name, "description": agent.description},
        "context": first.metadata.get("context", {}),
    }
