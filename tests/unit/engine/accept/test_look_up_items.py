"""Items are found, and counted once, although a coordinator applies them at the moment at which they are looked up."""

from typing import Any

import pytest

from roboco.domain.inbox.item import UserMessage
from roboco.domain.paths import inbox_path, item_path
from roboco.engine.accept.accept_item import accept_item, stored_item
from roboco.errors import TransientError
from tests.support.memory_ports.journeys import MANUAL
from tests.support.memory_ports.watch import make_call
from tests.support.memory_ports.world import TASK, World

ITEM = "item1"


def message(world: World, text: str = "more") -> UserMessage:
    return UserMessage(item_id=ITEM, created_at=world.engine.now(), text=text)


def texts_of_user(world: World) -> list[str]:
    return [step.text for step in world.history() if step.agent_name == "user"]


def test_a_message_that_the_store_writes_again_long_after_counts_once() -> None:
    world = MANUAL.at_rest()
    world.send("more", ITEM)
    late_write = world.files.get(item_path(TASK, ITEM))
    world.settle()
    for number in range(70):
        world.send(f"other {number}", f"other{number}")
    world.settle()
    world.files.put(item_path(TASK, ITEM), late_write or b"")
    world.server.wipe()
    world.settle()
    world.send("the last one", "last")
    world.settle()
    assert texts_of_user(world).count("more") == 1
    assert texts_of_user(world)[-1] == "the last one"
    assert not world.files.names(inbox_path(TASK))


@pytest.mark.parametrize("call_name", ["files.create", "task_store.load", "task_store.add_items", "files.get"])
def test_if_a_server_does_not_answer_after_the_item_was_sent_the_error_names_its_id(call_name: str) -> None:
    world = MANUAL.at_rest()
    written = list[str]()

    def watch(name: str, call: Any) -> Any:
        written.extend([name] if name == "files.create" else ())
        if written and name == call_name:
            call()
            raise TransientError("no answer")
        return call()

    world.watch = watch
    with pytest.raises(TransientError, match="no answer; send the item again with item id 'item1'"):
        accept_item(world.engine, TASK, message(world), lookup="new id")
    world.watch = make_call
    accept_item(world.engine, TASK, message(world))
    world.settle()
    assert texts_of_user(world) == ["go", "more"]


def test_a_message_that_is_applied_between_the_reads_of_a_look_up_is_found() -> None:
    world = MANUAL.at_rest()
    world.send("more", ITEM)

    def watch(name: str, call: Any) -> Any:
        found = call()
        if name == "files.get":
            world.watch = make_call
            world.settle()
        return found

    world.watch = watch
    found = stored_item(world.engine.workspace, TASK, ITEM)
    assert isinstance(found, UserMessage)
    assert found.text == "more"
    assert not world.files.names(inbox_path(TASK))
