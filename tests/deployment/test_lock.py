"""The lock files of the image: every package that it needs, with hashes, and no package index."""

import re
import tomllib
from itertools import chain

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.deployment.files import DEPLOY, ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
EXTRAS = ("workers", "flower", "gateway", "mcp", "otel", "documents", "memory", "a2a")


def packages_of(extra: str) -> list[str]:
    """Return the requirements of an extra, those of the project's other extras in their place."""
    found: list[str] = []
    for needed in PROJECT["project"]["optional-dependencies"][extra]:
        requirement = Requirement(needed)
        others = sorted(requirement.extras) if requirement.name == PROJECT["project"]["name"] else []
        found += chain.from_iterable(map(packages_of, others)) if others else [needed]
    return found


NEEDED = {
    "build.lock": PROJECT["build-system"]["requires"],
    "requirements.lock": [*PROJECT["project"]["dependencies"], *chain.from_iterable(map(packages_of, EXTRAS))],
}
_ENTRY = re.compile(r"([a-z0-9-]+)==([^ ;]+)( ; [^\\]+)? \\((\n    --hash=sha256:[0-9a-f]{64}( \\)?)+)\n")


def test_lock_covers_every_requirement_of_the_project() -> None:
    for name in NEEDED:
        locked: dict[str, list[str]] = {}
        for entry in _ENTRY.finditer((DEPLOY / name).read_text()):
            locked.setdefault(entry[1], []).append(entry[2])
        for needed in map(Requirement, NEEDED[name]):
            versions = locked.get(canonicalize_name(needed.name))
            assert versions, f"{name} lacks {needed}: run the command of deploy/README.md"
            assert all(needed.specifier.contains(version) for version in versions), (
                f"{name} has {versions} for {needed}"
            )


def test_lock_is_nothing_but_versions_with_hashes() -> None:
    for name in NEEDED:
        assert _ENTRY.sub("", (DEPLOY / name).read_text()) == ""
