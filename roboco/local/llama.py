"""A small local model for a first try without an API key, served by llama.cpp as a child process."""

import http.client
import importlib.util
import os
import sys
from dataclasses import dataclass
from pathlib import Path

from roboco.errors import UsageError
from roboco.local.model_download import MODEL_FILE, ModelDownload, remove_stale_downloads
from roboco.local.process import LOOPBACK, Server, choose_port, start_server, wait_ready

_READY_SECONDS = 120.0


@dataclass(frozen=True)
class LlamaServer(Server):
    """A running model server that speaks the OpenAI protocol and needs no API key."""

    port: int

    @property
    def base_url(self) -> str:
        """The address for OPENAI_BASE_URL."""
        return f"http://{LOOPBACK}:{self.port}/v1"


def begin_model(cache: Path) -> Path | ModelDownload:
    """Return the GGUF file that ROBOCO_LOCAL_MODEL names, else the one in `cache`, or its download if it is absent.

    Raises UsageError if the named file or pip is missing, TransientError if the download cannot start.
    """
    if named := os.environ.get("ROBOCO_LOCAL_MODEL"):
        if not Path(named).is_file():
            raise UsageError(f"ROBOCO_LOCAL_MODEL names {named!r}, which is not a file")
        return Path(named)
    remove_stale_downloads(cache)
    model = cache / MODEL_FILE
    return model if model.is_file() else ModelDownload(model)


def launch_llama(model: Path, log_folder: Path, port: int | None = None) -> LlamaServer:
    """Start a server for `model`, which is not loaded yet. Raises UsageError if the port is taken."""
    port = choose_port(port)
    module = "roboco.local.llama_server"
    command = [sys.executable, "-m", module, "--model", str(model.absolute()), "--port", str(port)]
    # In the folder of the sources `roboco` is importable, installed or not, and no file of the user shadows a module.
    server = start_server("llama", command, log=log_folder.absolute() / "llama.log", cwd=Path(__file__).parents[2])
    return LlamaServer(server.name, server.process, server.log, port)


def wait_loaded(server: LlamaServer) -> None:
    """Return once the model is loaded. Raises TransientError, and stops the server, if it does not start."""
    wait_ready(server, lambda: _is_loaded(server.port), _READY_SECONDS)


def check_llama() -> None:
    """Raise UsageError if the server's package is missing."""
    if importlib.util.find_spec("xllamacpp") is None:
        hosted = "set OPENAI_API_KEY to use a hosted model"
        raise UsageError(f"xllamacpp is not installed: run `pip install 'roboco[local]'`, or {hosted}")


def _is_loaded(port: int) -> bool:
    connection = http.client.HTTPConnection(LOOPBACK, port, timeout=2)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
