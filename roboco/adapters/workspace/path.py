"""Paths of a workspace: relative, and never out of it."""


def checked_path(path: str) -> str:
    """The path; ValueError if it leaves the workspace."""
    if path.startswith("/") or ".." in path.split("/"):
        raise ValueError(f"path {path[:120]!r} leaves the workspace")
    return path
