"""Collaboration: the order in which the agents of a team act."""

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from roboco.domain.schema import FUNCTION_PATTERN, InputModel
from roboco.domain.team.condition import Condition

MAX_CONDITIONS = 50
"""The largest number of conditions on the edges of one node, including nested ones. Each may search a whole text."""
END = "END"
TO_USER = "USER"


class Edge(InputModel):
    """An edge from a node of the graph."""

    to: str
    """The next agent, or "USER" or "END"."""
    when: Condition | None = None
    """The condition of the edge. None always holds."""
    max_times: Annotated[int, Field(ge=1)] | None = None
    """How often the edge may be taken in a task. None is no limit."""


class Sequential(InputModel):
    """The agents in order, `rounds` times, then END."""

    type: Literal["sequential"]
    rounds: Annotated[int, Field(ge=1)] = 1


class Manual(InputModel):
    """After every turn of an agent, it is the user's turn."""

    type: Literal["manual"]
    initial_agent: str | None = None


class Graph(InputModel):
    """A routing graph: nodes are agents, and edges have conditions on the agent's run.

    The first edge that holds is taken.
    """

    type: Literal["graph"]
    initial_agent: str | None = None
    routing_graph: dict[str, tuple[Edge, ...]]

    @field_validator("routing_graph", mode="before")
    @classmethod
    def _edge_by_name(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        listed = {node: edges if isinstance(edges, list | tuple) else [edges] for node, edges in value.items()}
        return {node: [{"to": one} if isinstance(one, str) else one for one in edges] for node, edges in listed.items()}

    @field_validator("routing_graph")
    @classmethod
    def _check_conditions(cls, graph: dict[str, tuple[Edge, ...]]) -> dict[str, tuple[Edge, ...]]:
        for node, edges in graph.items():
            tests = sum(edge.when.size for edge in edges if edge.when is not None)
            if tests > MAX_CONDITIONS:
                raise ValueError(
                    f"the edges of {node!r:.80} have {tests} conditions, at most {MAX_CONDITIONS} are possible"
                )
        return graph


class Custom(InputModel):
    """A router of the user's."""

    type: Literal["custom"]
    router: Annotated[str, Field(pattern=FUNCTION_PATTERN)]
    """The function, as "package.module:function"."""
    initial_agent: str | None = None


Collaboration = Annotated[Sequential | Manual | Graph | Custom, Field(discriminator="type")]
