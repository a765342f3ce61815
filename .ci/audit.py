"""audit.py PIP_AUDIT FOLDER: exit with 1 if a package installed in FOLDER has a known vulnerability.

pip-audit reports success even if it could reach no advisory service. This script reports the packages that were not
audited, but does not fail for them, because the service may be unreachable. _IGNORED is empty. If an advisory must be
ignored, add it there with the reason and the date of the next check.
"""

import json
import subprocess
import sys
from typing import Any

_SERVICES = ("pypi", "osv")
_IGNORED: tuple[str, ...] = ()
_TIMEOUT = 300


def main() -> int:
    """Query one service after the other until one returns an audited package. Return the exit code."""
    pip_audit, folder = sys.argv[1:]
    packages, reason = [], ""
    for service in _SERVICES:
        packages, reason = _query([pip_audit, "--path", folder, "--vulnerability-service", service])
        if any("vulns" in package for package in packages):
            break
    return _print_report(packages, reason)


def _query(command: list[str]) -> tuple[list[dict[str, Any]], str]:
    """Return the service's report of each package, and the reason of the first missing report."""
    ignored = [word for advisory in _IGNORED for word in ("--ignore-vuln", advisory)]
    arguments = [*command, *ignored, "--format", "json", "--progress-spinner", "off", "--timeout", "10"]
    try:
        done = subprocess.run(arguments, capture_output=True, text=True, timeout=_TIMEOUT, check=False)
        packages: list[dict[str, Any]] = json.loads(done.stdout)["dependencies"]
    except subprocess.TimeoutExpired:
        return [], f"no answer within {_TIMEOUT} s"
    except (OSError, ValueError, KeyError) as error:
        lines = done.stderr.strip().splitlines() if not isinstance(error, OSError) else []
        return [], lines[-1][:300] if lines else repr(error)
    skipped = [package["skip_reason"] for package in packages if "skip_reason" in package]
    return packages, skipped[0] if skipped else ""


def _print_report(packages: list[dict[str, Any]], reason: str) -> int:
    audited = [package for package in packages if "vulns" in package]
    lines = [
        f"VULNERABLE: {package['name']} {package['version']}: {flaw['id']}, "
        f"fixed in {', '.join(flaw['fix_versions']) or 'no version yet'}"
        for package in audited
        for flaw in package["vulns"]
    ]
    vulnerable = bool(lines)
    if len(audited) < len(packages) or not packages:
        lines.append(f"not audited: {len(packages) - len(audited) or 'all'} packages ({reason})")
    if audited:
        lines.append(f"audited: {len(audited)} packages, {'see above' if vulnerable else 'no known vulnerability'}")
    sys.stdout.write("\n".join(lines) + "\n")
    return 1 if vulnerable else 0


if __name__ == "__main__":
    sys.exit(main())
