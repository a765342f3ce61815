"""A real toolbox over any workspace, for tests."""

from functools import partial
from pathlib import Path

from roboco.adapters.artifacts.artifact_reader import artifact_reader
from roboco.adapters.mcp.servers import McpServers
from roboco.adapters.sandbox.sandbox import Sandbox
from roboco.adapters.search.memory_index import MemoryIndex
from roboco.adapters.tools.builtin import BuiltinTools
from roboco.adapters.tools.function_loader import FunctionLoader
from roboco.adapters.tools.python_tool import run_code
from roboco.adapters.tools.toolbox import FunctionToolbox
from roboco.ports.workspace import Files, Histories


def toolbox_of(
    files: Files,
    histories: Histories,
    modules: tuple[str, ...],
    folder: Path,
    time_up: type[Exception] = TimeoutError,
) -> FunctionToolbox:
    """Return a toolbox that keeps its index in the folder, and may start no MCP servers."""
    index = MemoryIndex(histories, artifact_reader(files), folder)
    builtin = BuiltinTools(files, index, partial(run_code, files, Sandbox()))
    return FunctionToolbox(files, builtin, McpServers(()), FunctionLoader(modules), time_up)
