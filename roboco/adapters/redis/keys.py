"""The names of all keys and channels in Redis.

Every key of a task holds its id in braces, so that a cluster keeps a task in one slot. Channels and
logs share a name.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Keys:
    """Key names below a prefix."""

    prefix: str = "roboco"

    def state(self, task_id: str) -> str:
        """Hash: the task's state, fence, pending choice and counters."""
        return self._of(task_id, "state")

    def tail(self, task_id: str) -> str:
        """List: the newest steps, as JSON."""
        return self._of(task_id, "tail")

    def content(self, task_id: str) -> str:
        """Stream and channel: chunks."""
        return self._of(task_id, "content")

    def events(self, task_id: str) -> str:
        """Stream and channel: events."""
        return self._of(task_id, "events")

    def inbox(self, task_id: str) -> str:
        """Set: ids of items from outside that are not applied yet."""
        return self._of(task_id, "inbox")

    def lease(self, task_id: str, call_id: str = "") -> str:
        """String with a time to live: the owner of the turn, or of a tool call."""
        return self._of(task_id, f"lease:{call_id}" if call_id else "lease")

    def calls(self, task_id: str) -> str:
        """Hash: attempt, owner and outcome of each dispatched tool call."""
        return self._of(task_id, "calls")

    @property
    def signals(self) -> str:
        """Channel: the task and epoch of work that is requested to end."""
        return f"{self.prefix}:signals"

    @property
    def schedule(self) -> str:
        """Sorted set: open tasks by the time of their next sweep."""
        return f"{self.prefix}:schedule"

    @property
    def telling(self) -> str:
        """Sorted set: the other entries of the schedule, such as notices, by the time of their next sweep."""
        return f"{self.prefix}:scheduled_jobs"

    @property
    def sentinel(self) -> str:
        """String: the run of Redis in which the schedule was filled. It is lost when Redis is emptied."""
        return f"{self.prefix}:sentinel"

    @property
    def filled(self) -> str:
        """String with a time to live: exists for a while after the schedule was filled."""
        return f"{self.prefix}:schedule_filled"

    @property
    def sweeper(self) -> str:
        """String with a time to live: the sweeper that holds the lock."""
        return f"{self.prefix}:sweeper"

    @property
    def dead(self) -> str:
        """Hash: dead letters by id, as JSON."""
        return f"{self.prefix}:{{dead}}:letters"

    @property
    def dead_order(self) -> str:
        """Sorted set: the ids of dead letters by the time at which they were stored."""
        return f"{self.prefix}:{{dead}}:order"

    @property
    def dead_sizes(self) -> str:
        """Hash: the sizes of dead letters in bytes by id, and their sum in the field ""."""
        return f"{self.prefix}:{{dead}}:sizes"

    def workers(self, pool: str) -> str:
        """Sorted set: the workers of a pool by the time of their last registration."""
        return f"{self.prefix}:{{workers}}:{pool}"

    def modules(self, pool: str) -> str:
        """Hash: the modules of tools of each worker of a pool, as JSON."""
        return f"{self.prefix}:{{workers}}:modules:{pool}"

    @property
    def workspace(self) -> str:
        """String: the id and the address of the coordinators' workspace."""
        return f"{self.prefix}:{{workers}}:workspace"

    def begun(self, work: str) -> str:
        """Set with a time to live: an entry for each attempt at the work that has not ended."""
        return f"{self.prefix}:{{{work}}}:attempts"

    def at_work(self, work: str) -> str:
        """String with a time to live: the lease of the attempt that works on it."""
        return f"{self.prefix}:{{{work}}}:attempt_lease"

    def bucket(self, server: str, name: str) -> tuple[str, ...]:
        """The keys of a rate limit, as `lua/_bucket.lua` names them: used, queue, tickets, flows, deadlines."""
        start = f"{self.prefix}:{{rate:{server}}}:{name}"
        return tuple(f"{start}:{key}" for key in ("used", "queue", "tickets", "flows", "deadlines"))

    def made(self, server: str, ticket: str) -> str:
        """String with a time to live: the slot and tokens of a request that may be made or was made."""
        return f"{self.prefix}:{{rate:{server}}}:admission:{ticket}"

    def held_back(self, server: str, variable: str) -> str:
        """String with a time to live: until when requests with the API key of this variable are held back."""
        return f"{self.prefix}:{{rate:{server}}}:paused_until:{variable}"

    def awaiting(self, server: str, variable: str) -> str:
        """Sorted set with a time to live: tasks that await an answer to requests with this key, by when they began."""
        return f"{self.prefix}:{{rate:{server}}}:awaiting:{variable}"

    def of_task(self, task_id: str) -> tuple[str, ...]:
        """The keys of an ended task, which expire."""
        names = (self.state, self.tail, self.content, self.events, self.inbox, self.calls)
        return tuple(name(task_id) for name in names)

    def _of(self, task_id: str, name: str) -> str:
        return f"{self.prefix}:{{{task_id}}}:{name}"
