"""ClientTool: a tool that the client declares, and runs itself when an agent calls it."""

from typing import Annotated

from pydantic import ConfigDict, Field, JsonValue

from roboco.domain.schema import Declared

MAX_CLIENT_TOOLS = 32
"""How many client tools a message may declare; those of the newest one that declares some count."""


class ClientTool(Declared):
    """A tool of the client's: its name begins with `client_`, `input_schema` is the JSON Schema of its arguments."""

    model_config = ConfigDict(strict=True)

    name: Annotated[str, Field(pattern=r"^client_[A-Za-z0-9_-]{1,57}$")]
    description: Annotated[str, Field(min_length=1, max_length=4000)]
    input_schema: dict[str, JsonValue] = {"type": "object"}
