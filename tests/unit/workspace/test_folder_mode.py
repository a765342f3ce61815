"""A workspace in a folder is readable by its owner alone."""

import stat
from pathlib import Path

from roboco.workspace.folder import FolderFiles


def test_a_new_workspace_is_readable_by_its_owner_alone(tmp_path: Path) -> None:
    FolderFiles(tmp_path / "new").put("tasks/a.json", b"{}")
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o700


def test_an_existing_workspace_keeps_its_mode(tmp_path: Path) -> None:
    root = tmp_path / "shared"
    root.mkdir()
    root.chmod(0o775)
    FolderFiles(root).put("tasks/a.json", b"{}")
    assert stat.S_IMODE(root.stat().st_mode) == 0o775
