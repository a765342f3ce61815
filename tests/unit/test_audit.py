"""The audit of dependencies: a known vulnerability fails the run, and an unanswered query is reported."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

AUDIT_SCRIPT = Path(__file__).parents[2] / ".ci" / "audit.py"
SAFE_PACKAGE = {"name": "amqp", "version": "5.4", "vulns": []}
VULNERABLE_PACKAGE = {
    "name": "jinja2",
    "version": "2.4.1",
    "vulns": [{"id": "PYSEC-2014-8", "fix_versions": ["2.7.2"]}],
}
SKIPPED_PACKAGE = {"name": "kombu", "skip_reason": "Dependency not found on PyPI and could not be audited: kombu (5.7)"}


def run_audit(folder: Path, answers: dict[str, Any]) -> tuple[int, str]:
    """Return the exit code and the output of an audit with a pip-audit that gives these answers for each service."""
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
    command = [sys.executable, str(AUDIT_SCRIPT), str(stub), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("answers", "code", "expected"),
    [
        ({"pypi": [SAFE_PACKAGE, SAFE_PACKAGE]}, 0, ["audited: 2 packages, no known vulnerability"]),
        (
            {"pypi": [SAFE_PACKAGE, VULNERABLE_PACKAGE]},
            1,
            ["VULNERABLE: jinja2 2.4.1: PYSEC-2014-8, mended in 2.7.2", "audited: 2 packages"],
        ),
        ({"pypi": [SAFE_PACKAGE, SKIPPED_PACKAGE]}, 0, ["not audited: 1 packages", "audited: 1 packages"]),
        ({"pypi": [SKIPPED_PACKAGE], "osv": [VULNERABLE_PACKAGE]}, 1, ["VULNERABLE: jinja2"]),
        (
            {"pypi": [SKIPPED_PACKAGE, SKIPPED_PACKAGE], "osv": [SKIPPED_PACKAGE, SKIPPED_PACKAGE]},
            0,
            ["not audited: 2 packages (Dependency not found"],
        ),
        ({"pypi": "no way", "osv": "cannot reach the service"}, 0, ["not audited: all packages (cannot reach"]),
        ({"pypi": [], "osv": []}, 0, ["not audited: all packages"]),
    ],
)
def test_an_audit_reports_vulnerable_and_unaudited_packages(
    tmp_path: Path, answers: dict[str, Any], code: int, expected: list[str]
) -> None:
    found, words = run_audit(tmp_path, answers)
    assert found == code, words
    assert all(one in words for one in expected), words
    assert ("no known vulnerability" in words) == any("no known" in one for one in expected) or "audited: 1" in words
    if "not audited" in expected[0] and len(expected) == 1:
        assert "\naudited" not in words
