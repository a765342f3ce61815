"""The built-in tools, which teams have without declaring them."""

import codecs
from base64 import b64encode
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime
from functools import cached_property
from typing import Annotated, Any

from pydantic import Field

from roboco.domain.builtin_tools import (
    ARTIFACT_LIST,
    ARTIFACT_READ,
    ARTIFACT_WRITE,
    FORGET,
    MEMORY_SEARCH,
    PYTHON,
    RECALL,
    REMEMBER,
)
from roboco.domain.history.part import Artifact
from roboco.domain.paths import artifact_path
from roboco.domain.prompt.chat import kind_of
from roboco.ports.tools import ToolContext
from roboco.ports.workspace import Files
from roboco.tools.documents import document_kind, read_document
from roboco.tools.function_tool import FunctionTool, describe_function
from roboco.tools.memory_tools import MemoryTools
from roboco.tools.python_tool import run_code
from roboco.tools.sandbox.sandbox import Sandbox
from roboco.tools.search.memory_index import MemoryIndex
from roboco.tools.search.result import PartKind, SearchFilters
from roboco.workspace.artifacts.store import NewArtifact, find_artifact, iter_pieces, list_artifacts, write_artifact

MAX_CONTENT_CHARS = 1024 * 1024
"""Maximum number of characters of a text that `artifact_write` accepts."""
MAX_READ_CHARS = 16_000
"""Maximum number of characters that `artifact_read` returns."""
MAX_READ_OFFSET = 64 * 1024 * 1024
"""The last character that `artifact_read` can return: it has to read all characters before it, too."""


class BuiltinTools:
    """Tools over the workspace of the task that calls them."""

    def __init__(self, files: Files, index: MemoryIndex, sandbox: Sandbox) -> None:
        self._files = files
        self._index = index
        self._sandbox = sandbox
        memory = MemoryTools(files, index.search_steps)
        self._created_artifacts: dict[str, tuple[Artifact, ...]] = {}
        self._functions: dict[str, Callable[..., Any]] = {
            ARTIFACT_WRITE: self._artifact_write,
            ARTIFACT_READ: self._artifact_read,
            ARTIFACT_LIST: self._artifact_list,
            MEMORY_SEARCH: self._memory_search,
            PYTHON: self._python,
            REMEMBER: memory.remember,
            RECALL: memory.recall,
            FORGET: memory.forget,
        }

    @cached_property
    def _tools(self) -> dict[str, FunctionTool]:
        """The tools by name. Clients that run none do not pay for their schemas."""
        return {name: describe_function(function) for name, function in self._functions.items()}

    def schema(self, name: str) -> dict[str, Any]:
        """Return the tool in the format of the chat completions protocol."""
        return self._tools[name].schema(name)

    def call(self, name: str, args: dict[str, Any], context: ToolContext) -> tuple[Any, tuple[Artifact, ...]]:
        """Return the tool's result, and the artifacts that it created."""
        result = self._tools[name].call(args, context)
        return result, self._created_artifacts.pop(context.call_id, ())

    def _artifact_write(
        self,
        name: Annotated[str, Field(description="file name such as report.md: letters, digits, '_', '-', '.'")],
        content: Annotated[str, Field(max_length=MAX_CONTENT_CHARS)],
        context: ToolContext,
        mime_type: str = "",
    ) -> dict[str, Any]:
        """Store a text as a file of this task. A name that is taken gets a version number; the answer has the URI."""
        written = NewArtifact(name, mime_type, context.step_id)
        for args in context.earlier:  # those of this name get their versions first, whichever call runs first
            before = args.get("content")
            if args.get("name") == name and isinstance(before, str) and len(before) <= MAX_CONTENT_CHARS:
                kind = str(args.get("mime_type", ""))
                write_artifact(self._files, context.task_id, replace(written, mime_type=kind), before.encode())
        artifact = write_artifact(self._files, context.task_id, written, content.encode())
        self._created_artifacts[context.call_id] = (artifact,)
        return artifact.model_dump(include={"uri", "mime_type", "size", "version"})

    def _artifact_read(
        self,
        uri: Annotated[str, Field(description="the file's URI or name")],
        context: ToolContext,
        offset: Annotated[int, Field(ge=0, le=MAX_READ_OFFSET, description="first character to return")] = 0,
        limit: Annotated[int, Field(ge=1, le=MAX_READ_CHARS)] = MAX_READ_CHARS,
        source: Annotated[bool, Field(description="the source of an HTML file, not its text")] = False,
    ) -> dict[str, Any]:
        """Read a text, PDF, DOCX, XLSX or HTML file of this task, or a part of its text, or see an image or a sound.

        `more` says whether there is more after the part. The part of a file of another kind is in `base64`; its
        `offset` counts bytes.
        """
        artifact = find_artifact(self._files, context.task_id, uri)
        if kind_of(artifact) in ("image", "audio"):
            self._created_artifacts[context.call_id] = (artifact,)
            return artifact.model_dump(include={"uri", "mime_type", "size"})
        if document_kind(artifact) is not None and not source:
            found = read_document(self._files, self._sandbox, artifact, context, (offset, limit))
            if not found["text"] and kind_of(artifact) is not None:  # perhaps scanned: models may see what it shows
                self._created_artifacts[context.call_id] = (artifact,)
            return found | {"offset": offset, "total_bytes": artifact.size}
        try:
            text = _text_part(iter_pieces(self._files, context.task_id, artifact), offset, limit + 1)
        except UnicodeDecodeError:
            return self._bytes(artifact, context, offset, limit * 3 // 4)
        return {"text": text[:limit], "offset": offset, "more": len(text) > limit, "total_bytes": artifact.size}

    def _bytes(self, artifact: Artifact, context: ToolContext, offset: int, limit: int) -> dict[str, Any]:
        data = self._files.read(artifact_path(context.task_id, artifact.name), offset, max(1, limit)) or b""
        about = {"mime_type": artifact.mime_type, "offset": offset, "total_bytes": artifact.size}
        return about | {"base64": b64encode(data).decode(), "more": offset + len(data) < artifact.size}

    def _artifact_list(self, context: ToolContext) -> list[dict[str, Any]]:
        """All files of this task, each with its type, size, version and the step that wrote it."""
        found = list_artifacts(self._files, context.task_id)
        return [artifact.model_dump(exclude={"artifact_id"}) for artifact in found]

    def _memory_search(  # noqa: PLR0913 - as many as a search may have
        self,
        query: Annotated[str, Field(min_length=1, max_length=1000)],
        context: ToolContext,
        limit: Annotated[int, Field(ge=1, le=50)] = 5,
        agent: Annotated[str | None, Field(description="only what this agent, or 'user', said")] = None,
        part: Annotated[PartKind | None, Field(description="only parts of this kind")] = None,
        after: Annotated[datetime | None, Field(description="only at or after this time")] = None,
        before: Annotated[datetime | None, Field(description="only before this time")] = None,
    ) -> Any:
        """Search everything that was said and done in this task, and its text files; best matches first."""
        found = self._index.search(context.task_id, query, limit + 1, SearchFilters(agent, part, after, before))
        hits = [hit.to_result() for hit in found.hits if hit.step_id != context.step_id][:limit]  # not this very call
        return hits if not found.note else {"hits": hits, "note": found.note}

    def _python(
        self,
        code: Annotated[str, Field(min_length=1, description="a Python 3 program; what it prints is the result")],
        context: ToolContext,
    ) -> dict[str, Any]:
        """Run a program in a sandbox without network. The files of this task stand in its folder.

        Files that it writes there become files of this task.
        """
        result, made = run_code(self._files, self._sandbox, code, context)
        self._created_artifacts[context.call_id] = made
        return result


def _text_part(pieces: Iterator[bytes], offset: int, limit: int) -> str:
    """Return at most `limit` characters from `offset` on. Raise UnicodeDecodeError if the pieces are not UTF-8.

    One piece is in memory at a time.
    """
    taken, left = "", offset
    for text in codecs.iterdecode(pieces, "utf-8"):
        taken += text[left : left + limit - len(taken)]
        left = max(0, left - len(text))
        if len(taken) == limit:
            break
    return taken
