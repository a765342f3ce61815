"""Checks of this machine: its limits, a model's key, Flower, and the local servers of `run` and `dev`."""

import importlib.util
import resource
import sqlite3
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing

from roboco.cli.doctor.check import CheckResult, expect
from roboco.domain.builtin_tools import PYTHON
from roboco.errors import UsageError
from roboco.local.seaweed import find_weed
from roboco.local.valkey import find_server
from roboco.process.extras import missing_packages
from roboco.tools.sandbox.budget import MemoryBudget
from roboco.tools.sandbox.limits import MIB
from roboco.tools.sandbox.sandbox import Sandbox

FILES_PER_TURN, BASE_FILES = 3, 200
"""Open files of an agents worker: for each turn, with the connection to its model, and for the whole process."""


def check_limits(concurrency: int) -> Iterator[CheckResult]:
    """Check the limit of open files for an agents worker, and the full-text search of SQLite for `memory_search`."""
    most, need = resource.getrlimit(resource.RLIMIT_NOFILE)[0], concurrency * FILES_PER_TURN + BASE_FILES
    unlimited = most == resource.RLIM_INFINITY
    found = f"{'any number' if unlimited else most}, and {concurrency} parallel turns need {need}"
    todo = f"ulimit -n {need} where the agents workers start, or a smaller ROBOCO_AGENTS_CONCURRENCY"
    yield expect("open files", unlimited or most >= need, found, todo)
    with closing(sqlite3.connect(":memory:")) as database:
        options = {row[0] for row in database.execute("PRAGMA compile_options")}
    indexes = "ENABLE_FTS5" in options
    found = f"{sqlite3.sqlite_version}, {'with' if indexes else 'without'} full-text search"
    yield expect("sqlite", indexes, found, "use a Python whose SQLite has FTS5: memory_search needs it", "fail")


def check_meaning(embeddings_model: str | None) -> CheckResult:
    """Check that `memory_search` can compare meanings; tools workers need the same packages."""
    lacks, model = missing_packages("memory"), embeddings_model or "the model of roboco[memory]"
    found = f"memory_search finds words alone, without {', '.join(lacks)}" if lacks else f"by words and by {model}"
    return expect("memory", not lacks, found, "pip install 'roboco[memory]' on the tools workers finds meanings, too")


def check_sandbox(budget: MemoryBudget = MemoryBudget()) -> CheckResult:  # noqa: B008 - immutable
    """Check that this machine can run code of a model in a sandbox; tools workers need it on their machines.

    The budget is that of a single sandbox. The log of a tools worker has its number of sandboxes and their share.
    """
    sandbox = Sandbox(budget=budget)
    refusal = sandbox.refusal()
    works = f"works, with {sandbox.limits.total_memory // MIB} MiB if it runs alone"
    found, _, todo = refusal.partition(": ") if refusal else (works, "", "")
    return expect("sandbox", not refusal, found, f"only the tool {PYTHON} needs it: {todo}")


def check_flower(address: str) -> CheckResult:
    """Check that Flower at this address asks for a password: it shows and ends Celery tasks."""
    try:
        with urllib.request.urlopen(f"{address.rstrip('/')}/tasks", timeout=5) as answer:  # noqa: S310 - the user's
            asks = "/login" in answer.url
    except urllib.error.HTTPError as error:
        asks = error.code in (401, 403)
        if not asks:
            return CheckResult("flower", "fail", f"{address}: its status is {error.code}", "see Flower's log")
    except (OSError, ValueError) as error:
        return CheckResult("flower", "fail", f"{address}: {error}", "check the address, and that Flower runs")
    todo = "set FLOWER_BASIC_AUTH=user:password; /metrics and /healthcheck stay open: keep its port inside"
    return expect("flower", asks, f"{address} {'asks' if asks else 'does not ask'} for a password", todo, "fail")


def check_model(env: Mapping[str, str]) -> CheckResult:
    """Check that this environment can call models; agents workers need the same environment."""
    if env.get("OPENAI_API_KEY", "").endswith("..."):
        todo = "set it where the agents workers run; a model server without keys accepts any other text"
        return CheckResult("model", "fail", "OPENAI_API_KEY ends with '...': it is a placeholder", todo)
    named = [name for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL") if env.get(name)]
    if named:
        return CheckResult("model", "ok", f"{' and '.join(named)} set here; agents workers need the same")
    todo = "set OPENAI_API_KEY where the agents workers run; without it `roboco run` takes a small local model"
    return CheckResult("model", "warn", "neither OPENAI_API_KEY nor OPENAI_BASE_URL is set", todo)


def check_local_servers() -> Iterator[CheckResult]:
    """Check that the local servers for a laptop are installed."""
    yield _check_installed("local redis", lambda: " ".join(find_server()), "`roboco run` and `roboco dev` need it")
    yield _check_installed("local s3", find_weed, "`roboco dev` takes a folder instead", "dev-server")
    yield _check_installed("local model", _find_model, "`roboco run` needs a key then")


def _check_installed(name: str, find: Callable[[], str], without: str, extra: str = "local") -> CheckResult:
    try:
        return CheckResult(name, "ok", find())
    except UsageError:
        return CheckResult(name, "warn", f"not installed: {without}", f"pip install 'roboco[{extra}]'")


def _find_model() -> str:
    spec = importlib.util.find_spec("xllamacpp")
    if spec is None:
        raise UsageError("xllamacpp is not installed")
    return "xllamacpp"
