"""The tools that every team has without declaring them."""

from collections.abc import Callable
from typing import Annotated, Any

from pydantic import Field

from roboco.adapters.artifacts import read_artifact, write_artifact
from roboco.adapters.tool import describe_function
from roboco.domain.builtin import ARTIFACT_LIST, ARTIFACT_READ, ARTIFACT_WRITE, MEMORY_SEARCH
from roboco.domain.part import Artifact, artifact_uri
from roboco.domain.paths import artifacts_path
from roboco.domain.search import search
from roboco.errors import UsageError
from roboco.ports import CallContext, Files, Histories

MAX_CONTENT = 1024 * 1024
"""The largest text that `artifact_write` takes, in characters."""
READ_LIMIT = 16_000
"""How many characters `artifact_read` returns at most."""


class BuiltinTools:
    """Tools over the workspace of the task that calls them."""

    def __init__(self, files: Files, histories: Histories) -> None:
        self._files = files
        self._histories = histories
        named: dict[str, Callable[..., Any]] = {
            ARTIFACT_WRITE: self._artifact_write,
            ARTIFACT_READ: self._artifact_read,
            ARTIFACT_LIST: self._artifact_list,
            MEMORY_SEARCH: self._memory_search,
        }
        self._tools = {name: describe_function(function) for name, function in named.items()}

    def schema(self, name: str) -> dict[str, Any]:
        """The tool as the chat completions protocol has it."""
        return self._tools[name].schema(name)

    def call(self, name: str, args: dict[str, Any], context: CallContext) -> tuple[Any, tuple[Artifact, ...]]:
        """The tool's result, and the artifacts that it made."""
        result = self._tools[name].call(args, context)
        made = (Artifact.model_validate(result),) if name == ARTIFACT_WRITE else ()
        return result, made

    def _artifact_write(
        self,
        name: Annotated[str, Field(description="file name such as report.md: letters, digits, '_', '-', '.'")],
        content: Annotated[str, Field(max_length=MAX_CONTENT)],
        context: CallContext,
        mime_type: str = "text/plain",
    ) -> dict[str, Any]:
        """Store a text as a file of this task. A name that is taken gets a version number; the answer has the URI."""
        return write_artifact(self._files, context.task_id, name, content.encode(), mime_type).model_dump()

    def _artifact_read(
        self,
        uri: Annotated[str, Field(description="the file's URI or name")],
        context: CallContext,
        offset: Annotated[int, Field(ge=0, description="first character to return")] = 0,
        limit: Annotated[int, Field(ge=1, le=READ_LIMIT)] = READ_LIMIT,
    ) -> dict[str, Any]:
        """Read a text file of this task, or a part of it."""
        try:
            text = read_artifact(self._files, context.task_id, uri).decode()
        except UnicodeDecodeError as error:
            raise UsageError(f"artifact {uri!r} is not a text in UTF-8") from error
        return {"text": text[offset : offset + limit], "offset": offset, "total_characters": len(text)}

    def _artifact_list(self, context: CallContext) -> list[str]:
        """The URIs of all files of this task."""
        return [artifact_uri(name) for name in self._files.names(artifacts_path(context.task_id))]

    def _memory_search(
        self,
        query: Annotated[str, Field(min_length=1, max_length=1000)],
        context: CallContext,
        limit: Annotated[int, Field(ge=1, le=50)] = 5,
    ) -> list[dict[str, Any]]:
        """Search everything that was said and done in this task; best matches first."""
        return [found.record() for found in search(self._histories.read(context.task_id), query, limit)]
