"""The audit of dependencies: a known vulnerability fails the run, and unaudited packages are reported."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

AUDIT = Path(__file__).parents[2] / ".ci" / "audit.py"
GOOD = {"name": "amqp", "version": "5.4", "vulns": []}
BAD = {"name": "jinja2", "version": "2.4.1", "vulns": [{"id": "PYSEC-2014-8", "fix_versions": ["2.7.2"]}]}
SKIPPED = {"name": "kombu", "skip_reason": "Dependency not found on PyPI and could not be audited: kombu (5.7)"}


def run_audit(folder: Path, answers: dict[str, Any]) -> tuple[int, str]:
    """Return the exit code and output of an audit with a stub of pip-audit that gives these answers, by service."""
    (folder / "answers.json").write_text(json.dumps(answers))
    stub = folder / "pip-audit"
    stub.write_text(
        f"#!{sys.executable}\nimport json, sys\n"
        "service = sys.argv[sys.argv.index('--vulnerability-service') + 1]\n"
        f"answer = json.load(open({str(folder / 'answers.json')!r}))[service]\n"
        "if isinstance(answer, str): sys.exit(answer)\n"
        "print(json.dumps({'dependencies': answer}))\n"
    )
    stub.chmod(0o755)
    command = [sys.executable, str(AUDIT), str(stub), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("answers", "code", "expected"),
    [
        ({"pypi": [GOOD, BAD]}, 1, ["VULNERABLE: jinja2 2.4.1: PYSEC-2014-8, fixed in 2.7.2", "audited: 2 packages"]),
        ({"pypi": [SKIPPED], "osv": [BAD]}, 1, ["VULNERABLE: jinja2"]),
        ({"pypi": [SKIPPED, SKIPPED], "osv": [SKIPPED, SKIPPED]}, 0, ["not audited: 2 packages (Dependency not found"]),
        ({"pypi": "no way", "osv": "cannot reach the service"}, 0, ["not audited: all packages (cannot reach"]),
    ],
)
def test_audit_reports_vulnerable_and_unaudited_packages(
    tmp_path: Path, answers: dict[str, Any], code: int, expected: list[str]
) -> None:
    exit_code, output = run_audit(tmp_path, answers)
    assert exit_code == code, output
    assert all(one in output for one in expected), output
    assert ("no known vulnerability" in output) == any("no known" in one for one in expected) or "audited: 1" in output
    if "not audited" in expected[0] and len(expected) == 1:
        assert "\naudited" not in output
