"""Types of the answers of agents: JSON Schemas, and types of the user's own modules."""

from typing import Any

from pydantic import PydanticSchemaGenerationError, PydanticUserError, TypeAdapter, ValidationError

from roboco.domain.canonical_json import canonical_json
from roboco.domain.prompt.typed_answer import answer_schema, as_answer
from roboco.domain.team.team import Agent
from roboco.errors import UsageError
from roboco.schemas.json_schema import value_error
from roboco.tools.function_loader import FunctionLoader
from roboco.tools.function_tool import mistakes_of
from roboco.tools.tool_failure import Mask
from roboco.tools.tool_result import to_json


class OutputTypes:
    """The types and the checks that agents name. `mask` removes secrets from what they say about a value."""

    def __init__(self, functions: FunctionLoader, mask: Mask = str) -> None:
        self._functions = functions
        self._mask = mask
        self._adapters: dict[str, tuple[TypeAdapter[Any], dict[str, Any]]] = {}

    def schema(self, agent: Agent) -> dict[str, Any]:
        """Return the JSON Schema of the agent's answer.

        Raise NotRunnable if this process lacks its module, and UsageError if a name is no type or check.
        """
        if agent.validator is not None:
            self._functions.check(agent.validator)
        return self._adapter(agent.output)[1] if isinstance(agent.output, str) else dict(agent.output or {})

    def checked(self, agent: Agent, value: Any, mask: Mask | None = None) -> Any:
        """Return the value of an answer as JSON, as the type and the agent's check make it.

        Raise ValueError, with the reason for the model, if it does not fit. Raise UsageError if the type or the check
        fails in another way. `mask` is that of a call.
        """
        mask = mask or self._mask
        try:
            return self._checked(agent, value)
        except ValidationError as error:
            raise ValueError(mask(mistakes_of(error, "the value"))) from error
        except ValueError as error:
            raise ValueError(mask(str(error))) from error
        except Exception as error:  # types and checks are the user's
            what = mask(f"{type(error).__name__}: {error}")[:1000]
            raise UsageError(f"the check of its answer failed: {what}") from error

    def _checked(self, agent: Agent, value: Any) -> Any:
        if isinstance(agent.output, str):
            value = self._adapter(agent.output)[0].validate_json(canonical_json(value))
        elif wrong := value_error(answer_schema(self.schema(agent)), as_answer(self.schema(agent), value)):
            raise ValueError(wrong)
        if agent.validator is not None:
            made = self._functions.check(agent.validator)(value)
            value = value if made is None else made
        return to_json(value, str(agent.validator or agent.output))

    def _adapter(self, name: str) -> tuple[TypeAdapter[Any], dict[str, Any]]:
        if name not in self._adapters:
            try:
                adapter: TypeAdapter[Any] = TypeAdapter(self._functions.own_type(name))
                self._adapters[name] = adapter, adapter.json_schema()
            except (PydanticSchemaGenerationError, PydanticUserError) as error:  # its text may quote objects
                raise UsageError(f"output {name!r} is no type of JSON values ({type(error).__name__})") from error
        return self._adapters[name]
