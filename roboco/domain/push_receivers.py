"""The receivers of push notifications of a task, which a client of A2A adds and removes while the task is open.

They have their own file: earlier releases read the other targets, and would refuse these.
"""

from typing import Final, Self

from roboco.domain.canonical_json import canonical_json
from roboco.domain.notification import MAX_TARGETS, NotifyTarget
from roboco.domain.schema import RecordModel
from roboco.errors import UsageError

MAX_PLACES: Final = 1000
"""The number of places, with those of removed receivers."""


class PushReceivers(RecordModel):
    """The receivers by their places, which follow those of the other targets.

    A notification is named by the place of its receiver. So the place of a removed receiver stays empty.
    """

    next_place: int = MAX_TARGETS
    receivers: dict[int, NotifyTarget] = {}

    @classmethod
    def from_json(cls, data: bytes | None) -> Self:
        """Return the receivers that the file stores, without fields that a later release has added."""
        return cls() if data is None else cls.model_validate_json(data, extra="ignore")

    def to_json(self) -> bytes:
        """Return the content of the file."""
        return canonical_json(self.model_dump(mode="json", exclude_defaults=True)).encode()

    def place_for(self, push_id: str) -> int:
        """Return the place of the receiver with this id, or the next one. Raise UsageError if there is no room."""
        if (place := self._places().get(push_id)) is not None:
            return place
        if len(self.receivers) >= MAX_TARGETS or self.next_place >= MAX_PLACES:
            raise UsageError(
                f"a task has at most {MAX_TARGETS} push receivers, and {MAX_PLACES - MAX_TARGETS} with those that were "
                f"removed: give one of the ids {', '.join(map(repr, self._places()))}, to replace it"
            )
        return self.next_place

    def with_receiver(self, receiver: NotifyTarget) -> Self:
        """Return the receivers with this one, which replaces that with its id. UsageError if there is no room."""
        assert receiver.push is not None
        place = self.place_for(receiver.push.id)
        receivers = self.receivers | {place: receiver}
        return self.model_copy(update={"receivers": receivers, "next_place": max(self.next_place, place + 1)})

    def without(self, push_id: str) -> Self:
        """Return the receivers without the one with this id."""
        gone = self._places().get(push_id)
        return self.model_copy(update={"receivers": {at: one for at, one in self.receivers.items() if at != gone}})

    def _places(self) -> dict[str, int]:
        return {one.push.id: place for place, one in self.receivers.items() if one.push is not None}
