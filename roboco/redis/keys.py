"""The names of all keys and channels in Redis.

Every key of a task contains its id in braces, so that a cluster keeps the task in one slot and one script can use all
its keys. A channel and its log have the same name. The schedule has two keys for each shard; their hash tag is in the
range of slots of the shard's tasks (`roboco/domain/ids.py`).
"""

import re
from dataclasses import dataclass

from roboco.domain.canonical_json import sha256
from roboco.domain.ids import SHARD_TAGS, is_task_id

_WORK_SEPARATOR = re.compile("[:/]")


@dataclass(frozen=True)
class Keys:
    """Key names below a prefix."""

    prefix: str = "roboco"

    def state(self, task_id: str) -> str:
        """Hash: the task's state, fence, pending choice and counters."""
        return self._task_key(task_id, "state")

    def tail(self, task_id: str) -> str:
        """List: the newest steps, as JSON."""
        return self._task_key(task_id, "tail")

    def content(self, task_id: str) -> str:
        """Stream and channel: chunks."""
        return self._task_key(task_id, "content")

    def events(self, task_id: str) -> str:
        """Stream and channel: events."""
        return self._task_key(task_id, "events")

    def inbox(self, task_id: str) -> str:
        """Set: ids of inbox items that are not applied yet."""
        return self._task_key(task_id, "inbox")

    def lease(self, task_id: str, call_id: str = "") -> str:
        """String with a time to live: the owner of the turn, or of a tool call."""
        return self._task_key(task_id, f"lease:{call_id}" if call_id else "lease")

    def calls(self, task_id: str) -> str:
        """Hash: attempt, owner and outcome of each dispatched tool call."""
        return self._task_key(task_id, "calls")

    @property
    def signals(self) -> str:
        """Channel: task and epoch of work whose end is requested."""
        return f"{self.prefix}:signals"

    def mcp_token(self, digest: str) -> str:
        """String with a time to live: an encrypted token for an MCP server, or the digest of a replaced one."""
        return f"{self.prefix}:mcp-token:{{{digest}}}"

    @property
    def switches(self) -> str:
        """Hash: the revision of the switches, and the switches as JSON. The workspace has the record."""
        return f"{self.prefix}:switches"

    def schedule(self, shard: int) -> str:
        """Sorted set: open tasks of a shard by the time of their next sweep."""
        return f"{self.prefix}:{{{SHARD_TAGS[shard]}}}:tasks"

    def scheduled_jobs(self, shard: int) -> str:
        """Sorted set: scheduled jobs of a shard that are no tasks, such as notifications, by their due times."""
        return f"{self.prefix}:{{{SHARD_TAGS[shard]}}}:jobs"

    @property
    def sentinel(self) -> str:
        """String: the Redis instance in which the schedule was filled. It is lost when Redis is emptied."""
        return f"{self.prefix}:sentinel"

    @property
    def schedule_filled(self) -> str:
        """String with a time to live: exists while the schedule counts as filled recently."""
        return f"{self.prefix}:schedule_filled"

    @property
    def schedule_fill(self) -> str:
        """Hash: the position of the fill of the schedule, and the coordinator that processes its next page."""
        return f"{self.prefix}:schedule_fill"

    @property
    def dead_letters(self) -> str:
        """Hash: dead letters by id, as JSON."""
        return f"{self.prefix}:{{dead}}:letters"

    @property
    def dead_letter_order(self) -> str:
        """Sorted set: the ids of dead letters by the time at which they were stored."""
        return f"{self.prefix}:{{dead}}:order"

    @property
    def dead_letter_sizes(self) -> str:
        """Hash: the sizes of dead letters in bytes by id, and their sum in the field ""."""
        return f"{self.prefix}:{{dead}}:sizes"

    def index_entries(self, tenant: str) -> str:
        """Hash: the entries of the task index by task id, of one tenant, or of the tasks without one."""
        return f"{self._index_key(tenant)}:entries"

    def index_order(self, tenant: str = "") -> str:
        """Sorted set: status, time of change and id of a tenant's tasks; without a tenant, of all tasks."""
        return f"{self._index_key(tenant)}:order"

    @property
    def index_progress(self) -> str:
        """String: the progress of rebuilding the task index from the workspace."""
        return f"{self.prefix}:{{index}}:progress"

    @property
    def index_trimmed(self) -> str:
        """String: the newest time of change, in milliseconds, of an ended task that was removed from the task index."""
        return f"{self.prefix}:{{index}}:trimmed"

    @property
    def index_lock(self) -> str:
        """String with a time to live: the coordinator that rebuilds the task index."""
        return f"{self.prefix}:{{index}}:lock"

    @property
    def retention_progress(self) -> str:
        """String: the progress of the scan of the workspace for tasks whose retention has ended."""
        return f"{self.prefix}:{{index}}:retention"

    @property
    def retention_lock(self) -> str:
        """String with a time to live: the coordinator that scans."""
        return f"{self.prefix}:{{index}}:retention_lock"

    def _index_key(self, tenant: str) -> str:
        return f"{self.prefix}:{{index}}" + (f":tenant:{tenant}" if tenant else "")

    def workers(self, pool: str) -> str:
        """Sorted set: the workers of a pool by the time of their last registration."""
        return f"{self.prefix}:{{workers}}:{pool}"

    def modules(self, pool: str) -> str:
        """Hash: the tool modules and the load of each worker of a pool, as JSON."""
        return f"{self.prefix}:{{workers}}:modules:{pool}"

    def drain_request(self, worker: str) -> str:
        """String with a time to live: a request for the worker to drain, as JSON."""
        return f"{self.prefix}:{{workers}}:drain:{worker}"

    @property
    def workspace(self) -> str:
        """String: the id and the address of the coordinators' workspace."""
        return f"{self.prefix}:{{workers}}:workspace"

    def caller(self, tenant: str, by: str, name: str) -> str:
        """Key of a limit of one caller of the gateway. All limits of a tenant share a slot; so do those without one.

        `requests` and `bytes`: string with a time to live, the time in ms at which all is paid for.
        `streams`: hash with a time to live: the open streams of each gateway process, and the end of their lease.
        `tasks`: sorted set with a time to live: open tasks by the time in ms of their last check.
        `usage:spent:DAY`: hash with a time to live: tokens, and cost in billionths. `usage:limits`: its limits.
        `usage:reserved:DAY`, `usage:ends:DAY`: as those of a tenant.
        """
        return f"{self.prefix}:{{gate:{tenant}}}:{name}:{sha256(by)[:24]}"

    def tenant_of_callers(self, tenant: str, name: str) -> str:
        """Key of the same limit of a tenant, of all of its callers together."""
        return f"{self.prefix}:{{gate:{tenant}}}:{name}"

    def attempts(self, work: str) -> str:
        """Set with a time to live: an entry for each attempt at the work that has not ended."""
        return self._work_key(work, "attempts")

    def attempt_lease(self, work: str) -> str:
        """String with a time to live: the lease of the running attempt at the work."""
        return self._work_key(work, "attempt_lease")

    def bucket(self, server: str, name: str) -> tuple[str, ...]:
        """Return the keys of a rate limit, in the order of `lua/_bucket.lua`."""
        start = f"{self.prefix}:{{rate:{server}}}:{name}"
        return tuple(f"{start}:{key}" for key in ("used", "queue", "tickets", "flows", "deadlines"))

    def admission(self, server: str, ticket: str) -> str:
        """String with a time to live: slot and tokens of an admitted request whose tokens are not recorded yet."""
        return f"{self.prefix}:{{rate:{server}}}:admission:{ticket}"

    def paused_until(self, server: str, variable: str) -> str:
        """String with a time to live: the end of a pause of requests with the API key of this variable, in ms."""
        return f"{self.prefix}:{{rate:{server}}}:paused_until:{variable}"

    def awaiting_reply(self, server: str, variable: str) -> str:
        """Sorted set with a time to live: tasks that wait for a reply to requests with this API key, oldest first."""
        return f"{self.prefix}:{{rate:{server}}}:awaiting:{variable}"

    def task_keys(self, task_id: str) -> tuple[str, ...]:
        """Return the keys of a task that expire after its end."""
        names = (self.state, self.tail, self.content, self.events, self.inbox, self.calls)
        return tuple(name(task_id) for name in names)

    def _task_key(self, task_id: str, name: str) -> str:
        return f"{self.prefix}:{{{task_id}}}:{name}"

    def _work_key(self, work: str, name: str) -> str:
        """Return a key for work that is named by its kind, ":" or "/", and a task id: in the slot of the task."""
        kind, *rest = _WORK_SEPARATOR.split(work, maxsplit=1)
        if rest and is_task_id(rest[0]):
            return self._task_key(rest[0], f"{name}:{kind}")
        return self._task_key(work, name)
