"""The policies of S3: who may read and write the keys of the gateway."""

import json
import os
import subprocess
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from tests.deployment.files import DEPLOY

POOL, COORDINATOR = "s3-policy.json", "s3-policy-coordinator.json"
GATEWAY, OPERATOR = "s3-policy-gateway.json", "s3-policy-operator.json"
TASK, KEY, OTHER = "roboco/tasks/order-17/task.json", "roboco/tasks-operator/_keys/4f1c.json", "roboco/others/file"
RECEIPT, REQUEST = "roboco/tasks-operator/_erased/t1", "roboco/tasks-operator/_erasing/t1"
SWITCHES = "roboco/tasks-operator/_switches.json"
ALLOWED = {
    POOL: {TASK: "GPD", KEY: "", RECEIPT: "G", REQUEST: "G", SWITCHES: "G"},
    COORDINATOR: {TASK: "GPD", KEY: "", RECEIPT: "GPD", REQUEST: "GPD", SWITCHES: "GPD"},
    GATEWAY: {TASK: "GPD", KEY: "G", RECEIPT: "GPD", REQUEST: "GPD", SWITCHES: "GPD"},
    OPERATOR: {TASK: "GPD", KEY: "GPD", RECEIPT: "GPD", REQUEST: "GPD", SWITCHES: "GPD"},
}
"""The objects that a policy allows to get, put and delete."""
ACTIONS = {"G": "s3:GetObject", "P": "s3:PutObject", "D": "s3:DeleteObject"}


def is_allowed(policy: dict[str, Any], action: str, resource: str) -> bool:
    """Return True if a statement allows the action and none denies it, as S3 decides."""
    effects = {
        one["Effect"]
        for one in policy["Statement"]
        if action in one["Action"] and any(fnmatchcase(f"arn:aws:s3:::{resource}", name) for name in one["Resource"])
    }
    return effects == {"Allow"}


def test_a_policy_allows_tasks_and_decides_on_the_keys_of_the_gateway() -> None:
    """A worker reads no key, and the gateway creates none."""
    for name in ALLOWED:
        policy = json.loads((DEPLOY / name).read_text())
        for resource, letters in (ALLOWED[name] | {OTHER: ""}).items():
            found = "".join(letter for letter, action in ACTIONS.items() if is_allowed(policy, action, resource))
            assert found == letters, resource
        assert is_allowed(policy, "s3:ListBucket", "roboco")


def test_every_user_of_minio_gets_the_policy_of_its_role(tmp_path: Path) -> None:
    """`mc` is replaced by a program that prints its arguments: MinIO itself is not tested."""
    fake = tmp_path / "mc"
    fake.write_text('#!/bin/sh\necho "$*" >&2\n')
    fake.chmod(0o755)
    users = ("COORDINATOR", "AGENTS", "TOOLS", "GATEWAY", "OPERATOR")
    keys = {f"S3_ACCESS_KEY_{user}": f"id-{user}" for user in users} | {f"S3_SECRET_KEY_{user}": "x" for user in users}
    environment = keys | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(["sh", str(DEPLOY / "minio-users.sh")], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    lines = done.stderr.splitlines()
    attached = {words[-1]: words[-3] for words in map(str.split, lines) if "attach" in words}
    assert attached == {f"id-{user}": "roboco-tasks" for user in users[1:3]} | {
        "id-COORDINATOR": "roboco-coordinator",
        "id-GATEWAY": "roboco-gateway",
        "id-OPERATOR": "roboco-operator",
    }
    created = {words[-2]: Path(words[-1]).name for words in map(str.split, lines) if "create" in words}
    assert created == {
        "roboco-tasks": POOL,
        "roboco-coordinator": COORDINATOR,
        "roboco-gateway": GATEWAY,
        "roboco-operator": OPERATOR,
    }
