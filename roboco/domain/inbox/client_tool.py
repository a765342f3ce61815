"""ClientTool: a tool that the client declares, and runs itself when an agent calls it."""

from typing import Annotated

from pydantic import ConfigDict, Field, JsonValue

from roboco.domain.schema import InputModel

MAX_CLIENT_TOOLS = 128
"""The largest number of client tools of one message. Those of the newest message that declares some apply."""


class ClientTool(InputModel):
    """A tool of the client's. Its name begins with `client_`."""

    model_config = ConfigDict(strict=True)

    name: Annotated[str, Field(pattern=r"^client_[A-Za-z0-9_-]{1,57}$")]
    description: Annotated[str, Field(min_length=1, max_length=4000)]
    input_schema: dict[str, JsonValue] = {"type": "object"}
    """The JSON Schema of its arguments."""
    output_schema: dict[str, JsonValue] | None = None
    """The JSON Schema of its result, for the form of a person who answers a call. No answer is checked against it."""
    agents: Annotated[list[str], Field(min_length=1, max_length=100)] | None = None
    """The agents that may call it. By default all agents of the team may."""
