"""Base classes of models: InputModel for input of users, and RecordModel for records that Roboco writes."""

from collections.abc import Mapping
from typing import Annotated, Final, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationInfo

NAME_PATTERN = r"^[A-Za-z][A-Za-z0-9_-]{0,63}$"
Name = Annotated[str, Field(pattern=NAME_PATTERN)]
EnvVarName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
"""The name of an environment variable."""
TOOL_PATTERN = r"^[A-Za-z_][A-Za-z0-9_-]{0,63}\Z"
ToolName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_-]{0,63}$")]
Effect = Literal["pure", "idempotent", "irreversible"]
"""The effect of a tool on the world. It determines the treatment of a call whose worker is lost."""
MAX_PRICE: Final = 1_000_000
"""The highest price of a call, or of a million tokens. Sums of costs are counted in billionths in 64 bits."""
Price = Annotated[float, Field(ge=0, le=MAX_PRICE)]
FUNCTION_PATTERN = r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*:[A-Za-z_][A-Za-z0-9_]*$"
FunctionName = Annotated[str, Field(pattern=FUNCTION_PATTERN)]
"""The name of a user's function or type, "package.module:name"."""

MAX_CALLER_CHARS: Final = 200
"""The most characters of a caller's identity."""


def _check_printable(text: str) -> str:
    if not text.isprintable():
        raise ValueError("must be printable characters")
    return text


def _is_none(value: object) -> bool:
    return value is None


CallerId = Annotated[str, Field(min_length=1, max_length=MAX_CALLER_CHARS), AfterValidator(_check_printable)]
"""The identity of a caller in a request, as a trusted service names it: the id of a key, or a subject."""
RecordedCaller = Annotated[str | None, Field(exclude_if=_is_none)]
"""The identity of a caller in a record. The record leaves it out if there is none."""


class InputModel(BaseModel):
    """A model of a user's input, such as a team file or a request. Unknown fields are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True, protected_namespaces=())


CREDENTIAL_NAME = r"^[A-Za-z][A-Za-z0-9_.-]{0,63}$"


class CredentialName(InputModel):
    """A secret that the function of ROBOCO_CREDENTIALS returns for the tenant of the task."""

    credential: Annotated[str, Field(pattern=CREDENTIAL_NAME)]


RECORD_CONTEXT: Final[Mapping[str, bool]] = {"recorded": True}
"""The validation context for the Python objects of a record, such as an event that was read from its log."""


class RecordModel(BaseModel):
    """A model that Roboco itself writes. Unknown fields of newer releases are kept."""

    # Values are ids and texts of tasks: a cache of 16,384 of them would fill 1.5 MB of each process.
    model_config = ConfigDict(extra="allow", frozen=True, populate_by_name=True, cache_strings="keys")

    def require_recorded(self, info: ValidationInfo, *names: str) -> Self:
        """Return the value. Raise ValueError if it was read from a record that lacks one of these fields.

        A constructor generates ids and times. Readers of a record must not: each would generate different ones.
        """
        missing = [name for name in names if name not in self.model_fields_set]
        if missing and is_record(info):
            raise ValueError(f"a recorded {type(self).__name__} must have the field {missing[0]!r}")
        return self


def is_record(info: ValidationInfo) -> bool:
    """Return True if a record is validated: JSON, or an object with the context RECORD_CONTEXT.

    Return False for the arguments of a constructor.
    """
    return info.mode == "json" or bool(info.context and info.context.get("recorded"))
