"""`deploy/try.sh` with a program in the place of Docker: the secrets that it makes, and the commands that it runs."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.deployment.files import DEPLOY

DOCKER = """#!/bin/sh
[ "$1" != "${MISSING_PLUGIN-}" ] || exit 125
echo "$* workspace=${ROBOCO_WORKSPACE-}" >>docker.log
case "$*" in
*imagetools*) echo sha256:0123 ;;
*"keys create"*) printf 'a line\\nthe-key\\n' ;;
esac
"""
SECRETS = 7 + 2 * 5 + 3
"""Passwords of Redis, two keys of S3 for each of five, Flower's user, the signing key and the cookie's secret."""


def run_try(folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the script in a copy of the folder deploy."""
    if not (folder / "deploy").exists():
        (folder / "deploy").mkdir()
        for name in ("try.sh", "pin-images.sh", "make-secrets.sh"):
            shutil.copy(DEPLOY / name, folder / "deploy" / name)
        (folder / "docker").write_text(DOCKER)
        (folder / "docker").chmod(0o755)
    environment = {"PATH": f"{folder}:{os.environ['PATH']}"} | variables
    command = [folder / "deploy" / "try.sh"]
    return subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True)


def test_the_first_run_makes_secrets_and_starts_everything(tmp_path: Path) -> None:
    allowlist = r'{"tasks": ["store.refund@\u0073\ntore"]}'  # a value that `echo` of some shells changes
    # Where `.roboco/dev/env` was read, the workspace of `roboco dev` is in the environment.
    done = run_try(tmp_path, OPENAI_API_KEY="sk-one", ROBOCO_ALLOWLIST=allowlist, ROBOCO_WORKSPACE="s3://dev/tasks")
    assert done.returncode == 0, done.stderr
    assert "with the key the-key" in done.stdout
    file = tmp_path / ".env"
    assert file.stat().st_mode & 0o077 == 0
    values = dict(line.split("=", 1) for line in file.read_text().splitlines())
    assert values.pop("OPENAI_API_KEY") == "'sk-one'"
    assert values.pop("ROBOCO_ALLOWLIST") == f"'{allowlist}'"
    secrets = [value for name, value in values.items() if not name.endswith("_IMAGE")]
    assert len(secrets) == len(set(secrets)) == SECRETS
    commands = (tmp_path / "docker.log").read_text().splitlines()[-3:]
    assert commands[0] == "compose up --build --detach --wait workspace="
    assert commands[1] == "compose exec -T gateway roboco demo workspace="
    assert values["S3_SECRET_KEY_OPERATOR"] in commands[2]


REFUSALS = {
    "no model": ({}, 64, "set OPENAI_API_KEY, or OPENAI_BASE_URL"),
    "a model server at the container": ({"OPENAI_BASE_URL": "http://localhost:11434/v1"}, 64, "host.docker.internal"),
    "a quote": ({"OPENAI_API_KEY": "sk-'one'"}, 64, "OPENAI_API_KEY contains the quote '"),
    "no buildx": ({"OPENAI_API_KEY": "sk-one", "MISSING_PLUGIN": "buildx"}, 69, "docker-buildx-plugin"),
}


@pytest.mark.parametrize(("variables", "code", "remedy"), REFUSALS.values(), ids=REFUSALS)
def test_a_refusal_is_one_line_with_the_remedy(
    tmp_path: Path, variables: dict[str, str], code: int, remedy: str
) -> None:
    done = run_try(tmp_path, **variables)
    assert (done.returncode, remedy in done.stderr, done.stderr.count("\n")) == (code, True, 1)
    assert list(tmp_path.glob(".env*")) == []
