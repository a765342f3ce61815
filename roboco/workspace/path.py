"""Paths of a workspace: relative, and always inside it."""


def checked_path(path: str) -> str:
    """Return the path. Raise ValueError if it leaves the workspace."""
    if path.startswith("/") or ".." in path.split("/"):
        raise ValueError(f"path {path[:120]!r} leaves the workspace")
    return path
