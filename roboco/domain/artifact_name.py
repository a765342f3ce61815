"""Names of artifacts, and the URIs by which parts refer to them."""

import re

MAX_NAME_CHARS = 128
"""The longest name of an artifact, in characters."""
ARTIFACT_NAME = re.compile(rf"[A-Za-z0-9_][A-Za-z0-9._-]{{0,{MAX_NAME_CHARS - 1}}}")
_URI = re.compile(r"file://(?:\./)?artifacts/(.+)")


def artifact_name(uri_or_name: str) -> str:
    """Return the name of an artifact from its name or URI.

    Raise ValueError if it could leave the workspace.
    """
    match = _URI.fullmatch(uri_or_name)
    name = match.group(1) if match else uri_or_name
    if not ARTIFACT_NAME.fullmatch(name):
        raise ValueError(
            f"artifact {uri_or_name[:120]!r} is not allowed: a name has 1 to 128 letters, digits, '_', '-' "
            "and '.', no folders, and does not start with '.'"
        )
    return name


def artifact_uri(name: str) -> str:
    """Return the URI of the artifact with this name, relative to the workspace."""
    return f"file://artifacts/{artifact_name(name)}"
