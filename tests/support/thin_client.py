"""A Python with only the packages of a client, as after `pip install roboco` without extras."""

import tomllib
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.stack import ROOT

_SITE = """
import os, sys

hidden = frozenset(os.environ["HIDDEN_MODULES"].split(","))


class Hiding:
    def __init__(self, finder):
        self.finder = finder

    def find_spec(self, name, path=None, target=None):
        return None if name.partition(".")[0] in hidden else self.finder.find_spec(name, path, target)

    def __getattr__(self, name):
        return getattr(self.finder, name)


sys.meta_path[:] = [Hiding(finder) for finder in sys.meta_path]
"""


def thin_client_environment(folder: Path, *extras: str) -> dict[str, str]:
    """Return the environment of a process that can import only the packages of a client and of these extras."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *(one for extra in extras for one in project["optional-dependencies"][extra])]
    kept = set(_closure([Requirement(one) for one in wanted], set())) | {"roboco"}
    hidden = [
        module
        for module, names in packages_distributions().items()
        if not kept & {canonicalize_name(name) for name in names} and module != "tests"
    ]
    (folder / "sitecustomize.py").write_text(_SITE)
    return {"HIDDEN_MODULES": ",".join(hidden), "PYTHONPATH": f"{folder}:{ROOT}"}


def _closure(requirements: list[Requirement], seen: set[tuple[str, str]]) -> Iterator[str]:
    for requirement in requirements:
        name = canonicalize_name(requirement.name)
        for extra in ("", *requirement.extras):
            if (name, extra) in seen:
                continue
            seen.add((name, extra))
            yield name
            try:
                needed = [Requirement(one) for one in requires(name) or ()]
            except PackageNotFoundError:
                continue
            yield from _closure(
                [one for one in needed if one.marker is None or one.marker.evaluate({"extra": extra})], seen
            )
