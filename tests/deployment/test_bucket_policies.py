"""The policies of S3: who may read and write the keys of the gateway."""

import json
from fnmatch import fnmatchcase
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
