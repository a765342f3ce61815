"""Execution of a hostile tenant's input in a process with the kernel's limits of memory and time.

    python -m tests.faults.hostile.bounded [KIND ...]    prints JSON: for each kind its inputs with their answers

Without defences the process dies, so that the test fails in seconds and harms no other process.
"""

import json
import resource
import subprocess
import sys
from collections.abc import Callable
from functools import cache

from roboco.domain.pattern import check_pattern
from roboco.errors import UsageError
from roboco.schemas.json_schema import schema_error, value_error
from roboco.templates.templates import JinjaPrompts, check_template
from tests.faults.hostile import tenant

MAX_MEMORY = 600 * 1024 * 1024
"""Bytes of address space: Python with Roboco's packages takes about half of it."""
MAX_CPU_SECONDS = 120
"""Seconds of processor time for all inputs together. With the defences they take about eight."""


def _rendered(template: str) -> str:
    try:
        return JinjaPrompts().render(template, tenant.VARIABLES)[:200]
    except UsageError as error:
        return str(error)


def _compiled(pattern: str) -> str:
    try:
        check_pattern(pattern)
    except ValueError as error:
        return str(error)
    return ""


KINDS: dict[str, Callable[[], dict[str, str]]] = {
    "refused_schemas": lambda: {name: schema_error(one) for name, one in tenant.REFUSED_SCHEMAS.items()},
    "endless_schemas": lambda: {
        name: schema_error(schema) or value_error(schema, value)
        for name, (schema, value) in tenant.ENDLESS_SCHEMAS.items()
    },
    "heavy_patterns": lambda: {pattern: _compiled(pattern) for pattern in tenant.HEAVY_PATTERNS},
    "refused_templates": lambda: {one: "; ".join(check_template(one)) for one in tenant.REFUSED_TEMPLATES},
    "greedy_templates": lambda: {
        one: "; ".join(check_template(one)) or _rendered(one) for one in tenant.GREEDY_TEMPLATES
    },
}


@cache
def run_bounded() -> dict[str, dict[str, str]]:
    """Return the inputs of each kind with their answers. Raise CalledProcessError if the process was killed."""
    command = [sys.executable, "-m", "tests.faults.hostile.bounded"]
    done = subprocess.run(command, capture_output=True, check=True, text=True)
    found: dict[str, dict[str, str]] = json.loads(done.stdout)
    return found


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY, MAX_MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (MAX_CPU_SECONDS, MAX_CPU_SECONDS))
    print(json.dumps({kind: KINDS[kind]() for kind in sys.argv[1:] or KINDS}))
