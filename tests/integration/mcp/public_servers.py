"""Two real calls of each of some public MCP servers from PyPI and npm, through the adapter.

    python -m tests.integration.mcp.public_servers [--folder FOLDER] [NAME...]

Without names: all. The packages are installed into FOLDER with uv and npm (node 20), which is kept; by default it is
`roboco-mcp-servers` in the folder for temporary files. Each server is started as a tools worker starts it, without a
sandbox. The offered schemas must pass the rules of OpenAI's server. The exit code is 1 if a server fails.
"""

import argparse
import functools
import http.server
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from roboco.domain.prompt.offered_schema import offered_schema
from roboco.domain.team.mcp_server import McpServer
from roboco.errors import UsageError
from roboco.tools.mcp.confinement import Confinement
from roboco.tools.mcp.listing import describe_left_out
from roboco.tools.mcp.servers import McpServers
from tests.support.openai_schema import schema_mistakes

Call = tuple[str, dict[str, Any], str]
"""The short name of a tool, its arguments, and a text that the result contains."""


@dataclass(frozen=True)
class PublicServer:
    """A public server: how to install and start it, and two calls."""

    package: str
    program: str
    calls: Callable[[Path, str], tuple[Call, Call]]
    """From a folder of the server's own and the address of a web page."""
    args: tuple[str, ...] = ()
    """`DATA` in them is that folder."""
    npm: bool = True
    prepare: Callable[[Path], None] = field(default=lambda folder: None)
    folder_variable: str = ""
    """The variable with the name of its folder, if it has one."""


def _repository(folder: Path) -> None:
    run = functools.partial(subprocess.run, check=True, capture_output=True, cwd=folder)
    run(["git", "init", "-q"])
    run(["git", "-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-q", "--allow-empty", "-m", "first"])


def _file_calls(folder: Path, page: str) -> tuple[Call, Call]:
    path = str(folder / "a.txt")
    return ("write_file", {"path": path, "content": "tea"}, "a.txt"), ("read_text_file", {"path": path}, "tea")


def _agent_file_calls(folder: Path, page: str) -> tuple[Call, Call]:
    path = str(folder / "b.txt")
    return ("write_file", {"path": path, "content": "tea"}, "b.txt"), ("list_directory", {"path": str(folder)}, "b.txt")


def _memory_calls(folder: Path, page: str) -> tuple[Call, Call]:
    entity = {"name": "tea", "entityType": "drink", "observations": ["green"]}
    return ("create_entities", {"entities": [entity]}, "entities"), ("search_nodes", {"query": "tea"}, "green")


def _thought_calls(folder: Path, page: str) -> tuple[Call, Call]:
    def thought(number: int) -> dict[str, Any]:
        return {"thought": "Hm.", "nextThoughtNeeded": number < 2, "thoughtNumber": number, "totalThoughts": 2}

    return ("sequentialthinking", thought(1), "1"), ("sequentialthinking", thought(2), "2")


def _everything_calls(folder: Path, page: str) -> tuple[Call, Call]:
    return ("echo", {"message": "tea"}, "tea"), ("get-sum", {"a": 3, "b": 4}, "7")


def _git_calls(folder: Path, page: str) -> tuple[Call, Call]:
    where = {"repo_path": str(folder)}
    return ("git_log", where, "first"), ("git_status", where, "clean")


def _sqlite_calls(folder: Path, page: str) -> tuple[Call, Call]:
    return (
        ("create_table", {"query": "CREATE TABLE teas (name TEXT)"}, "created"),
        ("list_tables", {}, "teas"),
    )


def _time_calls(folder: Path, page: str) -> tuple[Call, Call]:
    conversion = {"source_timezone": "Europe/Rome", "time": "12:00", "target_timezone": "Asia/Tokyo"}
    return ("get_current_time", {"timezone": "Europe/Rome"}, "Rome"), ("convert_time", conversion, "Tokyo")


def _fetch_calls(folder: Path, page: str) -> tuple[Call, Call]:
    return ("fetch", {"url": page}, "Green tea"), ("fetch", {"url": page, "raw": True}, "<h1>")


def _calculator_calls(folder: Path, page: str) -> tuple[Call, Call]:
    return ("calculate", {"expression": "3 * 7"}, "21"), ("calculate", {"expression": "2 ** 10"}, "1024")


def _playwright_calls(folder: Path, page: str) -> tuple[Call, Call]:
    return ("browser_navigate", {"url": page}, "Page Title: Tea"), ("browser_snapshot", {}, "Green tea")


def _commander_calls(folder: Path, page: str) -> tuple[Call, Call]:
    path = str(folder)
    return ("get_config", {}, "allowedDirectories"), ("list_directory", {"path": path}, "")


def _bank_calls(folder: Path, page: str) -> tuple[Call, Call]:
    kept = {"projectName": "tea", "fileName": "a.md", "content": "# Tea"}
    return ("memory_bank_write", kept, ""), ("memory_bank_read", {"projectName": "tea", "fileName": "a.md"}, "Tea")


def _markitdown_calls(folder: Path, page: str) -> tuple[Call, Call]:
    return (
        ("convert_to_markdown", {"uri": page}, "Green tea"),
        ("convert_to_markdown", {"uri": "data:text/plain,green%20tea"}, "green tea"),
    )


_BROWSER = ("--executable-path", chromium) if (chromium := shutil.which("chromium")) else ()
"""A browser of the machine; without it the server looks for Chrome."""
SERVERS = {
    "filesystem": PublicServer(
        "@modelcontextprotocol/server-filesystem", "mcp-server-filesystem", _file_calls, ("DATA",)
    ),
    "memory": PublicServer("@modelcontextprotocol/server-memory", "mcp-server-memory", _memory_calls),
    "thinking": PublicServer(
        "@modelcontextprotocol/server-sequential-thinking", "mcp-server-sequential-thinking", _thought_calls
    ),
    "everything": PublicServer("@modelcontextprotocol/server-everything", "mcp-server-everything", _everything_calls),
    "agent-files": PublicServer(
        "@agent-infra/mcp-server-filesystem",
        "mcp-server-filesystem",
        _agent_file_calls,
        ("--allowed-directories", "DATA"),
    ),
    "playwright": PublicServer(
        "@playwright/mcp",
        "playwright-mcp",
        _playwright_calls,
        ("--headless", "--no-sandbox", "--isolated", "--output-dir", "DATA", *_BROWSER),
    ),
    "commander": PublicServer("@wonderwhy-er/desktop-commander", "desktop-commander", _commander_calls),
    "memory-bank": PublicServer(
        "@allpepper/memory-bank-mcp", "mcp-server-memory-bank", _bank_calls, folder_variable="MEMORY_BANK_ROOT"
    ),
    "git": PublicServer("mcp-server-git", "mcp-server-git", _git_calls, npm=False, prepare=_repository),
    "fetch": PublicServer(
        "mcp-server-fetch", "mcp-server-fetch", _fetch_calls, ("--ignore-robots-txt", "--allow-private-ips"), npm=False
    ),
    "time": PublicServer("mcp-server-time", "mcp-server-time", _time_calls, npm=False),
    "sqlite": PublicServer(
        "mcp-server-sqlite mcp<2", "mcp-server-sqlite", _sqlite_calls, ("--db-path", "DATA/teas.db"), npm=False
    ),
    "calculator": PublicServer("mcp-server-calculator", "mcp-server-calculator", _calculator_calls, npm=False),
    "markitdown": PublicServer("markitdown-mcp", "markitdown-mcp", _markitdown_calls, npm=False),
}


def install(server: PublicServer, folder: Path) -> Path:
    """Return the server's program, after installing its package into the folder."""
    program = folder / "node_modules/.bin" / server.program if server.npm else folder / "bin" / server.program
    if not program.exists():
        folder.mkdir(parents=True, exist_ok=True)
        run = functools.partial(subprocess.run, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        if server.npm:
            run(
                [
                    "npm",
                    "install",
                    "--silent",
                    "--no-fund",
                    "--no-audit",
                    "--ignore-scripts",
                    "--prefix",
                    str(folder),
                    server.package,
                ]
            )
        else:
            run(["uv", "venv", "-q", "--allow-existing", str(folder)])
            run(["uv", "pip", "install", "-q", "--python", str(folder / "bin/python"), *server.package.split()])
    return program


def drive(name: str, server: PublicServer, folder: Path, page: str) -> str:
    """Return a line about the server's tools and the two calls. Raise AssertionError or UsageError if one fails."""
    program, data = install(server, folder / name), folder / "data" / name
    shutil.rmtree(data, ignore_errors=True)
    data.mkdir(parents=True)
    server.prepare(data)
    command = [str(program), *(arg.replace("DATA", str(data)) for arg in server.args)]
    variables = (server.folder_variable,) if server.folder_variable else ()
    os.environ |= dict.fromkeys(variables, str(data))
    declared = McpServer.model_validate({"command": command, "connect_timeout": 60, "env": variables})
    servers = McpServers((shlex.join(command),), variables, confinement=Confinement("off"))
    began = time.monotonic()
    try:
        offer = servers.list_tools(declared, f"{name}_")
        listed = time.monotonic() - began
        for short, tool in offer.tools.items():
            assert not (mistakes := schema_mistakes(offered_schema(tool.input_schema))), f"{short}: {mistakes}"
        for tool_name, args, expected in server.calls(data, page):
            result, _ = servers.call(declared, tool_name, args, "key", lambda: False)
            assert expected in str(result), f"{tool_name}: {str(result)[:500]}"
    finally:
        servers.close()
    left_out = describe_left_out(offer) or "none left out"
    return (
        f"{len(offer.tools)} tools, {left_out}; listed in {listed:.1f} s, 2 calls in {time.monotonic() - began:.1f} s"
    )


@contextmanager
def web_page(folder: Path) -> Iterator[str]:
    """Yield the address of a web page."""
    folder.mkdir(parents=True, exist_ok=True)
    text = "<html><head><title>Tea</title></head><body><h1>Green tea</h1><p>Green tea is fine.</p></body></html>"
    (folder / "page.html").write_text(text)

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=str(folder))) as web:
        threading.Thread(target=web.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{web.server_address[1]}/page.html"
        web.shutdown()


def main() -> int:
    """Drive the servers, and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "roboco-mcp-servers")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(SERVERS))
    arguments = parser.parse_args()
    failed = 0
    with web_page(arguments.folder / "page") as page:
        for name in arguments.names or SERVERS:
            try:
                line = f"ok    {name}: {drive(name, SERVERS[name], arguments.folder, page)}"
            except (AssertionError, UsageError, OSError, subprocess.CalledProcessError) as error:
                failed += 1
                line = f"FAIL  {name}: {error} {(getattr(error, 'stderr', None) or b'').decode()[-500:]}"
            sys.stdout.write(f"{line}\n")
            sys.stdout.flush()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
