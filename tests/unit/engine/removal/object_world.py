"""A world whose workspace is S3 in memory, so that histories are files, too."""

from collections.abc import Callable

from roboco.domain.paths import tombstone_path
from roboco.domain.removal.erasure import ErasureReceipt, ErasureRequest
from roboco.engine.accept.request_erasure import request_erasure
from roboco.workspace.s3_history import S3Histories
from tests.support.memory_ports.journeys import Journey
from tests.support.memory_ports.objects import MemoryObjects, ObjectFiles
from tests.support.memory_ports.watch import Watch, make_call
from tests.support.memory_ports.world import TASK, Given, World, world_parts


class ObjectWorld(World):
    """A deployment in memory with a workspace of objects."""

    def __init__(self, given: Given, watch: Watch = make_call) -> None:
        super().__init__(given, watch)
        self.objects = MemoryObjects()
        self.files = ObjectFiles(self.objects)  # type: ignore[assignment]
        self.histories = S3Histories(self.objects)  # type: ignore[assignment]
        self.engine = self.process()

    def erase(self, task_id: str = TASK, **fields: object) -> ErasureReceipt:
        """Request the erasure of the task."""
        request = ErasureRequest.model_validate({"task_id": task_id, "requested_at": self.engine.now()} | fields)
        return request_erasure(self.engine, request)

    def receipt(self, task_id: str = TASK) -> ErasureReceipt:
        """Return the stored receipt."""
        return ErasureReceipt.model_validate_json(self.files.held[tombstone_path(task_id)])

    def sweep_until(self, is_done: Callable[[], bool], seconds: float = 5.0) -> None:
        """Sweep, and deliver messages, until the condition holds."""
        for _ in range(200):
            self.drain()
            self.sweep()
            if is_done():
                return
            self.clock.move(seconds)
        raise AssertionError("the condition never held")

    def finish_erasure(self, task_id: str = TASK, seconds: float = 5.0) -> None:
        """Sweep until the receipt is finished."""
        self.sweep_until(
            lambda: tombstone_path(task_id) in self.files.held and self.receipt(task_id).finished_at is not None,
            seconds,
        )

    def traces(self, task_id: str = TASK) -> list[str]:
        """Return all names of the task, except its receipt and its request, in the workspace and in Redis."""
        held = self.server.held
        names = [path for path in self.files.held if task_id in path and not path.startswith(("_erased/", "_erasing/"))]
        names += [f"schedule {name}" for name in held.schedule if task_id in name and not name.startswith("erase/")]
        names += [f"letter {name}" for name, letter in held.letters.items() if task_id in letter]
        for kind in ("tasks", "inboxes", "entries", "attempts"):
            names += [f"{kind} {name}" for name in getattr(held, kind) if task_id in name]
        return names


def at_rest(journey: Journey) -> ObjectWorld:
    """Return a world in which the team of the journey was submitted, and has worked until it waits or has ended."""
    world = ObjectWorld(world_parts(journey.script))
    world.submit(journey.team)
    world.settle()
    return world
