"""The REST routes by which operators erase and export tasks, and preview the retention."""

from typing import Any

from roboco.domain.memory import Memory, MemoryEntry, owner_path
from roboco.domain.paths import erasure_path, tombstone_path
from roboco.ports.memories import change_memory, read_memory
from tests.support.gateway_rest import KEY, RestWorld
from tests.support.unpacked_tar import unpacked

OPERATOR = {KEY: "local"}


def ended(rest: RestWorld, name: str = "t1") -> str:
    """Create a task of a tenant that ends, and return its whole id."""
    created = rest.client.post(
        "/v1/tasks", json={"team": "desk", "prompt": "secret text", "task_id": name}, headers={KEY: "acme"}
    )
    assert created.status_code == 201, created.text
    task_id = f"acme:{name}"
    rest.world.settle(task_id)
    if not rest.world.summary(task_id).status.ended:
        rest.world.stop(task_id=task_id)
        rest.world.settle(task_id)
    return task_id


def operate(rest: RestWorld, method: str, path: str, status: int = 200, **sent: Any) -> Any:
    answer = rest.client.request(method, f"/v1/operations{path}", headers=OPERATOR, **sent)
    assert answer.status_code == status, answer.text
    return answer.json()


def test_a_task_is_erased_and_its_receipt_shown(rest: RestWorld) -> None:
    task_id = ended(rest)
    first = operate(rest, "POST", f"/erasures/{task_id}", 202, json={"reason": "asked"})
    assert (first["status"], first["by"]) == ("erasing", "local")
    assert operate(rest, "GET", f"/erasures/{task_id}") == first
    rest.world.sweep()
    receipt = operate(rest, "POST", f"/erasures/{task_id}")
    assert receipt == operate(rest, "GET", f"/erasures/{task_id}")
    assert (receipt["status"], receipt["reason"]) == ("erased", "asked")
    assert "secret text" not in str(receipt)
    read = rest.client.get(f"/v1/tasks/{task_id}", headers=OPERATOR)
    assert (read.status_code, read.json()["code"]) == (410, "erased")
    again = {"team": "desk", "prompt": "secret text", "task_id": "t1"}
    submitted = rest.client.post("/v1/tasks", json=again, headers={KEY: "acme"})
    assert (submitted.status_code, submitted.json()["code"]) == (410, "erased")


def test_tasks_are_listed_before_they_are_erased_by_conditions(rest: RestWorld) -> None:
    ids = [ended(rest, "t1"), ended(rest, "t2")]
    assert operate(rest, "POST", "/erasures", 400, json={})["code"] == "invalid"
    assert operate(rest, "POST", "/erasures", 422, json={"tennant": "acme"})["code"] == "invalid"
    listed = operate(rest, "POST", "/erasures", json={"tenant": "acme"})
    assert [(one["task_id"], one["outcome"]) for one in listed["tasks"]] == [(task_id, "matched") for task_id in ids]
    assert erasure_path(ids[0]) not in rest.world.files.held
    assert operate(rest, "POST", "/erasures", json={"tenant": "other", "dry_run": False})["tasks"] == []
    erased = operate(rest, "POST", "/erasures", json={"tenant": "acme", "dry_run": False})
    assert [one["outcome"] for one in erased["tasks"]] == ["accepted", "accepted"]
    rest.world.clock.move(5)
    rest.world.sweep()
    assert all(tombstone_path(task_id) in rest.world.files.held for task_id in ids)


def test_memories_are_shown_and_erased_by_owner_and_with_their_tenant(rest: RestWorld) -> None:
    def remember(tenant: str, user: str) -> str:
        path, time = owner_path(tenant, "context.user", user), rest.world.engine.now()
        entry = MemoryEntry(id="mem_1", text="tea", agent="a", task_id="t", step_id="s", created_at=time)
        more = entry.model_copy(update={"id": "mem_2", "text": "salt"})
        change_memory(rest.world.files, path, lambda _: Memory(entries=(entry, more)))
        return path

    paths = [remember("acme", "alice"), remember("acme", "bob"), remember("beta", "alice")]
    alice = {"tenant": "acme", "of": "context.user", "value": "alice"}
    shown = operate(rest, "GET", "/memory", params=alice)
    assert [entry["text"] for entry in shown["entries"]] == ["tea", "salt"]
    assert operate(rest, "GET", "/memory")["entries"] == []
    operate(rest, "GET", "/memory", 400, params={"of": "../x", "value": "y"})
    assert rest.client.get("/v1/operations/memory", params=alice, headers={KEY: "acme"}).status_code == 403
    for erased in (1, 0):
        assert operate(rest, "POST", "/memory/erasure", json=alice | {"entry": "mem_2"}) == {"entries": erased}
    assert [len(read_memory(rest.world.files, path).entries) for path in paths] == [1, 2, 2]
    assert operate(rest, "POST", "/memory/erasure", json=alice) == {"entries": 1}
    assert [len(read_memory(rest.world.files, path).entries) for path in paths] == [0, 2, 2]
    task_id = ended(rest)
    for stop, left in ((False, 2), (True, 0)):
        operate(rest, "POST", "/erasures", json={"tenant": "acme", "dry_run": False, "stop": stop})
        assert [len(read_memory(rest.world.files, path).entries) for path in paths] == [0, left, 2]
    assert erasure_path(task_id) in rest.world.files.held


def test_a_task_is_exported(rest: RestWorld) -> None:
    task_id = ended(rest)
    answer = rest.client.get(f"/v1/operations/tasks/{task_id}/export", headers=OPERATOR)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/x-tar")
    assert b"secret text" in unpacked(answer.content)["history.jsonl"]
