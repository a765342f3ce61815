"""Types of the answers of agents: JSON Schemas, and types of the user's own modules."""

from collections.abc import Callable
from typing import Any

from pydantic import PydanticSchemaGenerationError, PydanticUserError, TypeAdapter, ValidationError

from roboco.domain.canonical_json import canonical_json
from roboco.domain.prompt.typed_answer import answer_schema, as_answer
from roboco.domain.team.team import Agent
from roboco.errors import UsageError
from roboco.schemas.json_schema import value_error
from roboco.tools.function_loader import FunctionLoader
from roboco.tools.tool_result import to_json

_MAX_MISTAKES = 5
"""Maximum number of mistakes of a value that are shown to the model."""


class OutputTypes:
    """The types and the checks that agents name."""

    def __init__(self, functions: FunctionLoader) -> None:
        self._functions = functions
        self._adapters: dict[str, tuple[TypeAdapter[Any], dict[str, Any]]] = {}

    def schema(self, agent: Agent) -> dict[str, Any]:
        """Return the JSON Schema of the agent's answer.

        Raise NotRunnable if this process lacks its module, and UsageError if the name is no type.
        """
        if agent.validator is not None:
            self._functions.own_function(agent.validator)
        return self._adapter(agent.output)[1] if isinstance(agent.output, str) else dict(agent.output or {})

    def checked(self, agent: Agent, value: Any) -> Any:
        """Return the value of an answer as JSON, as the type and the agent's check make it.

        Raise ValueError, with the reason for the model, if it does not fit. Raise UsageError if the check fails in
        another way.
        """
        if isinstance(agent.output, str):
            try:
                value = self._adapter(agent.output)[0].validate_json(canonical_json(value))
            except ValidationError as error:
                raise ValueError(_mistakes(error)) from error
        elif wrong := value_error(answer_schema(self.schema(agent)), as_answer(self.schema(agent), value)):
            raise ValueError(wrong)
        if agent.validator is not None:
            value = _call(agent.validator, self._functions.own_function(agent.validator), value)
        return to_json(value, str(agent.validator or agent.output))

    def _adapter(self, name: str) -> tuple[TypeAdapter[Any], dict[str, Any]]:
        if name not in self._adapters:
            try:
                adapter: TypeAdapter[Any] = TypeAdapter(self._functions.own_type(name))
                self._adapters[name] = adapter, adapter.json_schema()
            except (PydanticSchemaGenerationError, PydanticUserError) as error:
                raise UsageError(f"output {name!r} is no type of JSON values: {error.message[:300]}") from error
        return self._adapters[name]


def _call(name: str, check: Callable[[Any], Any], value: Any) -> Any:
    try:
        made = check(value)
    except ValueError:
        raise
    except Exception as error:
        raise UsageError(f"validate {name!r} raised {type(error).__name__}: {error}") from error
    return value if made is None else made


def _mistakes(error: ValidationError) -> str:
    found = error.errors(include_url=False, include_context=False)
    lines = [
        f"{'.'.join(map(str, one['loc'])) or 'the value'}: {one['msg']} (found {one['input']!r:.80})" for one in found
    ]
    more = [f"and {len(lines) - _MAX_MISTAKES} mistakes more"] if len(lines) > _MAX_MISTAKES else []
    return "; ".join(lines[:_MAX_MISTAKES] + more)
