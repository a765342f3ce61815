"""A real toolbox over any workspace, for tests."""

from pathlib import Path

from roboco.ports.histories import Histories
from roboco.ports.workspace import Files
from roboco.process.credentials import Credentials
from roboco.tools.builtin import BuiltinTools
from roboco.tools.function_loader import FunctionLoader
from roboco.tools.mcp.servers import McpServers
from roboco.tools.sandbox.sandbox import Sandbox
from roboco.tools.search.memory_index import MemoryIndex
from roboco.tools.toolbox import FunctionToolbox


def toolbox_of(
    files: Files,
    histories: Histories,
    modules: tuple[str, ...],
    folder: Path,
    time_up: type[Exception] = TimeoutError,
    credentials: str | None = None,
) -> FunctionToolbox:
    """Return a toolbox that keeps its index in the folder, and may start no MCP servers."""
    index = MemoryIndex(histories, files.read, folder)
    builtin = BuiltinTools(files, index, Sandbox())
    return FunctionToolbox(files, builtin, McpServers(()), FunctionLoader(modules), time_up, Credentials(credentials))
