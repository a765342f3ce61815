"""Ids of tasks and items that derive from the header Idempotency-Key."""

import hashlib
from itertools import combinations

import pytest

from roboco.domain.ids import check_task_id
from roboco.gateway.idempotency import (
    NewTaskId,
    new_task_id,
    task_id_of_key,
)
from roboco.gateway.problem import Problem


def test_the_id_of_a_task_is_a_digest_of_tenant_and_key() -> None:
    assert task_id_of_key("acme", "one") == f"k_{hashlib.sha256(b'acme' + bytes(1) + b'one').hexdigest()[:32]}"
    assert check_task_id(task_id_of_key("acme", "one"))
    assert task_id_of_key("acme", '"one"') == task_id_of_key("acme", "one")


def test_other_tenants_keys_and_purposes_have_other_ids() -> None:
    arguments = [("a", "k"), ("b", "k"), ("a", "l"), ("a", "k", "fork", "t"), ("a", "k", "fork", "u"), ("", "ak")]
    ids = [task_id_of_key(*one) for one in arguments]
    assert all(one != other for one, other in combinations(ids, 2))


def test_a_new_task_has_the_id_of_the_body_or_of_the_key_or_a_random_one() -> None:
    assert new_task_id("acme", "t", None) == NewTaskId("acme:t", repeatable=True)
    assert new_task_id("acme", "acme:t", None) == new_task_id(None, "acme:t", None) == NewTaskId("acme:t", True)
    assert new_task_id("acme", None, "k") == NewTaskId(f"acme:{task_id_of_key('acme', 'k')}", repeatable=True)
    assert new_task_id(None, None, "k").task_id == task_id_of_key("", "k")
    first, second = (new_task_id("acme", None, None) for _ in range(2))
    assert first.task_id != second.task_id
    assert not first.repeatable
    assert check_task_id(first.task_id).startswith("acme:")
    for tenant, task_id, key in (("acme", "other:t", None), ("acme", "t", "k")):
        with pytest.raises(Problem):
            new_task_id(tenant, task_id, key)
