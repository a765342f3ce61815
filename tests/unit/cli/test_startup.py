"""The packages that a command imports at its start; they determine its startup time."""

import subprocess
import sys

import pytest

HEAVY = {
    "boto3",
    "openai",
    "genai_prices",
    "jsonschema_rs",
    "prometheus_client",
    "snowballstemmer",
    "flower",
    "mcp",
    "minijinja",
    "aiohttp",
    "httpx2",
    "xllamacpp",
}
LIBRARIES = HEAVY | {"celery", "kombu", "redis", "pydantic", "rich", "yaml"}


@pytest.mark.parametrize(
    ("code", "absent"),
    [
        ("from roboco.cli.main import commands; commands.get_help(__import__('click').Context(commands))", LIBRARIES),
        ("import roboco", LIBRARIES),
        ("import roboco; roboco.Orchestrator; roboco.Task", HEAVY),
        ("from roboco.cli.commands import submit, tasks, watch", HEAVY),
        ("from roboco.cli.commands.init import init", HEAVY | {"celery", "kombu", "redis", "rich"}),
    ],
)
def test_heavy_packages_are_not_imported(code: str, absent: set[str]) -> None:
    program = f"{code}\nimport sys; print(' '.join({{name.partition('.')[0] for name in sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert not absent & set(done.stdout.split())
