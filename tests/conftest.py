"""Servers that tests share, one of each per test process. Each test uses its own names, and no data is flushed."""

import gc
import os
from collections.abc import Callable, Generator, Iterator
from typing import TypeVar

import pytest

from roboco.errors import UsageError
from roboco.local.process import Server
from roboco.local.seaweed import S3Server, find_weed, start_seaweed
from roboco.local.valkey import ValkeyServer, find_server, start_valkey
from tests.support import selection
from tests.support.gateway_openai import write_teams
from tests.support.journeys import answer
from tests.support.stack import LONG_LEASE, Stack, s3_environment

T = TypeVar("T", bound=Server)
SLOWEST_FOLDERS = ("faults", "browser", "deployment", "integration")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options that choose tests."""
    selection.add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    """Register the plugin that deselects slow tests unless `--slow` is given."""
    config.pluginmanager.register(selection.Selection(config))
    gc.disable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Move the slowest folders to the front, since one process runs a whole file: none starts a long file last."""
    items.sort(key=lambda item: [folder not in item.path.parts for folder in SLOWEST_FOLDERS])


def pytest_collection_finish() -> None:
    """Exempt imported modules and collected tests from garbage collection, since they stay until the end."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the state of the running stacks to the report of a failed test."""
    report = yield
    if report.when == "call" and report.failed:
        for stack in Stack.running:
            try:
                report.sections += [(f"Stack: {name}", text) for name, text in stack.state()]
            except Exception as error:  # pytest would end, and report neither this test nor the others
                report.sections.append(("Stack", f"its state cannot be read: {error!r}"))
    return report


@pytest.fixture(scope="session")
def valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ValkeyServer]:
    """Yield a Redis server."""
    need(find_server)
    yield from running(start_valkey(tmp_path_factory.mktemp("valkey")))


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """Yield an S3 server with one bucket."""
    need(find_weed)
    yield from running(start_seaweed(tmp_path_factory.mktemp("seaweed")))


@pytest.fixture(scope="module", params=["folder", pytest.param("s3", marks=pytest.mark.slow)])
def stack(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Yield three real workers over a workspace in a folder, and once more in S3."""
    server: S3Server | None = request.getfixturevalue("s3") if request.param == "s3" else None
    with (
        s3_environment(server),
        Stack(tmp_path_factory.mktemp("stack"), s3=server, lease_seconds=LONG_LEASE) as started,
    ):
        started.model.script(answer)
        yield started


@pytest.fixture(scope="session")
def stack_of_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Yield three real workers that stay until the test process ends, with the teams for OpenAI's clients."""
    folder = tmp_path_factory.mktemp("stack")
    with Stack(folder, lease_seconds=LONG_LEASE, teams_dir=write_teams(folder / "teams")) as started:
        yield started


@pytest.fixture(scope="module")
def shared_stack(stack_of_process: Stack) -> Stack:
    """Return workers that other modules use too: no test restarts them, empties Redis or counts all requests."""
    stack_of_process.model.script(answer)
    return stack_of_process


@pytest.fixture(scope="module")
def folder_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Yield three real workers over a workspace in a folder."""
    with Stack(tmp_path_factory.mktemp("stack"), lease_seconds=LONG_LEASE) as started:
        started.model.script(answer)
        yield started


def need(find: Callable[[], object]) -> None:
    """Skip the test if the program is not installed; in CI, fail it."""
    try:
        find()
    except UsageError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(error))


def running(server: T) -> Iterator[T]:
    """Yield the server, and stop it after the tests."""
    try:
        yield server
    finally:
        server.stop()
