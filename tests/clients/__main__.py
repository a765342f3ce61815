"""Drive clients of the gateway: `python -m tests.clients [--all] [--install] [CLIENT...]`.

By default the rows plain, stream, structured output, resume and killed worker. `--all` drives every
row, and writes the table into roboco/docs/clients.md. `--install` installs the clients, and ends.
"""

import argparse
import sys
import time

from tests.clients.environments import CLIENTS, Environments
from tests.clients.matrix import QUICK_ROWS, ROWS, drive, table, write_table


def main() -> int:
    """Return 1 if a row has another outcome than the table says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--install", action="store_true")
    parser.add_argument("clients", nargs="*", metavar="CLIENT", choices=[*(one.name for one in CLIENTS), []])
    options = parser.parse_args()
    began = time.monotonic()
    clients = [one for one in CLIENTS if one.name in options.clients or not options.clients]
    environments = Environments()
    environments.install(clients)
    print(f"installed after {time.monotonic() - began:.0f} s", flush=True)
    if options.install:
        return 0
    driven = drive(environments, clients, ROWS if options.all else QUICK_ROWS)
    print(f"driven after {time.monotonic() - began:.0f} s\n{table(driven)}")
    if options.all and not options.clients:
        write_table(driven)
    for one in driven:
        for row, outcome in one.unexpected.items():
            print(f"{one.client.name} {one.version}, {row}: {outcome}", file=sys.stderr)
    return int(any(one.unexpected for one in driven))


if __name__ == "__main__":
    sys.exit(main())
