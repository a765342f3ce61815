"""WhatIf: the rule of a run of `roboco what-if`, in its frozen team. Only Roboco sets it."""

from typing import Annotated, Literal

from pydantic import Field

from roboco.domain.schema import Effect, InputModel

MAX_RUNS = 20
"""The most runs that are compared with a task at once."""


class WhatIf(InputModel):
    """The rule of a run: its tool calls are answered from the record of another task, and none has an effect.

    A call with a recorded result of the same tool and arguments gets that result, the n-th call the n-th one. Without
    one, a built-in tool and a pure tool that needs no approval run, and the others are refused. A tool is pure if both
    teams say so. Workers of earlier releases refuse a team with this rule, so they run no call of it.
    """

    source: str
    """The id of the task that the run is compared with."""
    seq: Annotated[int, Field(ge=0)]
    """The position of the last step that the run shares with that task."""
    group: str
    """The id of the comparison. The runs are GROUP-1, GROUP-2, and so on."""
    runs: Annotated[int, Field(ge=1, le=MAX_RUNS)]
    """The number of runs of the comparison."""
    unrecorded: Literal["run", "refuse"] = "run"
    """Whether pure tools run if there is no recorded result, or are refused too."""
    effects: dict[str, Effect] = {}
    """The effects of tools in the team of the other task, if this team declares a weaker one. They do not run."""
