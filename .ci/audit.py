"""audit.py PIP_AUDIT FOLDER: whether a package installed in FOLDER has a known vulnerability (exit code 1).

pip-audit itself says that all is well where it could ask nobody. What was not audited is told here, and fails nothing:
the advisory service may be out of reach. There is no list of ignored advisories; the first that has to be ignored goes
into _IGNORED, with the reason and the day on which to look again.
"""

import json
import subprocess
import sys
from typing import Any

_SERVICES = ("pypi", "osv")
_IGNORED: tuple[str, ...] = ()
_SECONDS = 300


def main() -> int:
    """Ask one service after the other until one knows something."""
    pip_audit, folder = sys.argv[1:]
    found, why = [], ""
    for service in _SERVICES:
        found, why = _asked([pip_audit, "--path", folder, "--vulnerability-service", service])
        if any("vulns" in package for package in found):
            break
    return _told(found, why)


def _asked(command: list[str]) -> tuple[list[dict[str, Any]], str]:
    """What the service says of each package, and why it says nothing."""
    ignored = [word for one in _IGNORED for word in ("--ignore-vuln", one)]
    asking = [*command, *ignored, "--format", "json", "--progress-spinner", "off", "--timeout", "10"]
    try:
        done = subprocess.run(asking, capture_output=True, text=True, timeout=_SECONDS, check=False)
        packages: list[dict[str, Any]] = json.loads(done.stdout)["dependencies"]
    except subprocess.TimeoutExpired:
        return [], f"no answer within {_SECONDS} s"
    except (OSError, ValueError, KeyError) as error:
        said = done.stderr.strip().splitlines() if not isinstance(error, OSError) else []
        return [], said[-1][:300] if said else repr(error)
    skipped = [package["skip_reason"] for package in packages if "skip_reason" in package]
    return packages, skipped[0] if skipped else ""


def _told(found: list[dict[str, Any]], why: str) -> int:
    audited = [package for package in found if "vulns" in package]
    lines = [
        f"VULNERABLE: {package['name']} {package['version']}: {flaw['id']}, "
        f"mended in {', '.join(flaw['fix_versions']) or 'no version yet'}"
        for package in audited
        for flaw in package["vulns"]
    ]
    vulnerable = bool(lines)
    if len(audited) < len(found) or not found:
        lines.append(f"not audited: {len(found) - len(audited) or 'all'} packages ({why})")
    if audited:
        lines.append(f"audited: {len(audited)} packages, {'see above' if vulnerable else 'no known vulnerability'}")
    sys.stdout.write("\n".join(lines) + "\n")
    return 1 if vulnerable else 0


if __name__ == "__main__":
    sys.exit(main())
