"""Orchestrator: what a caller talks to, from any process that reaches Redis and the workspace."""

import logging
import uuid
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import BinaryIO, Self, Unpack

from roboco.adapters.redis.client import connect
from roboco.adapters.redis.keys import Keys
from roboco.adapters.redis.stream.follower import RedisFollower
from roboco.client.dead_letters import dismiss, requeue
from roboco.client.options import Wished
from roboco.client.task import Task
from roboco.client.team_lookup import resolve_team
from roboco.client.wiring import Host, build_engine, client_telemetry, dispatcher_of, producer, workspace_address
from roboco.domain.dead_letter import DeadLetter
from roboco.domain.history.part import Artifact
from roboco.domain.ids import check_tenant, is_task_id, of_tenant, tenant_of
from roboco.domain.inbox.submission import read_submission
from roboco.domain.notification import Notify, check_callback
from roboco.domain.paths import summary_path
from roboco.domain.task_summary import TaskSummary
from roboco.domain.team.model_offer import ModelOffer, offers
from roboco.domain.team.team import Team
from roboco.engine.coordinator.submit import submit
from roboco.engine.engine import Engine
from roboco.engine.registration import check_workspace
from roboco.errors import CorruptHistory, TransientError, UsageError
from roboco.settings import Settings, read_settings

_log = logging.getLogger(__name__)


class Orchestrator:
    """Runs teams on the shop's workers. Safe to share between threads; nothing is connected before its first use.

    With a tenant in the settings it knows that tenant's tasks alone, by their own ids or whole ("TENANT:ID").
    """

    def __init__(self, settings: Settings | None = None) -> None:
        self.settings = settings or read_settings()
        self._producer = producer(self.settings)
        self._client = connect(self.settings.redis_url)
        self._telemetry = client_telemetry(self.settings)
        dispatcher = dispatcher_of(self._producer)
        self.engine: Engine = build_engine(self.settings, dispatcher, self._client, Host(self._telemetry))
        self._compared = False
        self._follower = RedisFollower(self._client, self.settings.redis_url, Keys(self.settings.prefix))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections; tasks go on."""
        if self._telemetry is not None:
            self._telemetry.close()
        self._producer.close()
        self._client.close()

    def run(
        self,
        team: Team | str | Path,
        prompt: str,
        **wished: Unpack[Wished],
    ) -> Task:
        """Submit a task and return at once; when this returns, the task will come to an end.

        `team` is a Team, the path of a team file, or the name of one in ROBOCO_TEAMS_DIR; `Wished` says what else may
        be wished. The same `task_id` with the same content again is the same task. UsageError says what is wrong before
        anything is stored; it is Overloaded if too much waits already (ROBOCO_MAX_QUEUED).
        """
        return self._accept(team, prompt, wished)

    def run_in_canvas(self, team: Team | str | Path, prompt: str, wished: Wished, goes_on: Notify) -> Task:
        """Submit a task as `run` does; when it has ended, Roboco's own Celery task goes on in the shop's canvas.

        `goes_on` must be made by the caller itself, and of nothing that a producer or a tenant wrote.
        """
        return self._accept(team, prompt, wished, goes_on)

    def _accept(self, team: Team | str | Path, prompt: str, wished: Wished, goes_on: Notify | None = None) -> Task:
        chosen = resolve_team(self.settings, team)
        named = {name: value for name, value in wished.items() if value is not None and name != "files"}
        task_id = named["task_id"] = self._new_id(named.pop("tenant", None), named.get("task_id"))
        if isinstance(eta := named.get("eta"), datetime):
            named["eta"] = eta.isoformat()
        stored = [self.upload(task_id, file).name for file in wished.get("files") or ()]
        named |= {"artifacts": [*wished.get("artifacts", ()), *stored]} if stored else {}
        submission = read_submission(named | {"team": chosen.name, "prompt": prompt})
        for target in submission.notify:
            check_callback(target, self.settings.allowed_callbacks)
        if goes_on is not None:
            submission = submission.model_copy(update={"notify": [goes_on, *submission.notify]})
        self._check_workspace()
        submit(self.engine, submission, chosen)
        return self._task(submission.task_id)

    def models(self, team: Team | str | Path) -> list[ModelOffer]:
        """The model profiles of a team, of which `model` may name one when a task is submitted or forked."""
        return offers(resolve_team(self.settings, team))

    def upload(self, task_id: str, file: Path | BinaryIO, name: str | None = None) -> Artifact:
        """Store a file of any size for a task that is submitted or forked later, whose first message brings it."""
        return self._task(self.whole_id(task_id)).upload(file, name)

    def task(self, task_id: str) -> Task:
        """The task of this id; UsageError if there is none."""
        task = self._task(self.whole_id(task_id))
        task.summary()
        return task

    def tasks(self) -> Iterator[TaskSummary]:
        """All tasks of the workspace, or of the tenant, as they stand now; a warning names those with broken files."""
        for name in self.task_ids():
            if self.engine.files.get(summary_path(name)) is not None:
                try:
                    summary = self._task(name).summary()
                except CorruptHistory as error:
                    _log.warning("task %s is left out: %s", name, error)
                else:
                    yield summary

    def task_ids(self) -> Iterator[str]:
        """The ids of all tasks of the workspace, or of the tenant, also of some that were never accepted."""
        tenant = self.settings.tenant
        names = self.engine.files.names("")
        return (name for name in names if is_task_id(name) and tenant in (None, tenant_of(name)))

    def whole_id(self, task_id: object) -> str:
        """The id of what the tenant may call by its own id alone; UsageError if it is another tenant's."""
        return of_tenant(self.settings.tenant, task_id)

    def _new_id(self, tenant: object, task_id: object) -> str:
        """The whole id of a task to submit for this tenant, or for the client's own."""
        mine = self.settings.tenant
        if tenant is not None and mine not in (None, check_tenant(tenant)):
            raise UsageError(
                f"tenant {tenant!r}: this client submits for tenant {mine!r} alone (ROBOCO_TENANT); "
                "leave tenant out, or use a client without ROBOCO_TENANT"
            )
        whose = mine if tenant is None else check_tenant(tenant)
        return of_tenant(whose, f"task_{uuid.uuid4().hex}" if task_id is None else task_id)

    def dead_letters(self) -> list[DeadLetter]:
        """Messages that no worker could read or take in, and work that was lost too often, oldest first.

        UsageError for a tenant: they are everybody's.
        """
        self._of_all()
        return self.engine.dead.letters()

    def requeue(self, letter_id: str) -> DeadLetter:
        """Send a dead letter again, and take it off the list; UsageError if that cannot be or would change nothing."""
        self._of_all()
        return requeue(self.engine, self._producer, letter_id)

    def dismiss(self, letter_id: str) -> DeadLetter | None:
        """Take a dead letter off the list without sending it, also one of a task that has ended; return the letter.

        None if it is not on the list, for example because it was dismissed before. If its cause persists, such as a
        broken history, the same letter is stored again. UsageError for a tenant.
        """
        self._of_all()
        return dismiss(self.engine, letter_id)

    def _check_workspace(self) -> None:
        """Compare the workspace with the coordinators', once. If one cannot be read, the submission shows the cause."""
        if not self._compared:
            with suppress(TransientError):
                check_workspace(self.engine, workspace_address(self.settings))
                self._compared = True

    def _of_all(self) -> None:
        if self.settings.tenant is not None:
            raise UsageError(f"dead letters are the operator's, not of tenant {self.settings.tenant!r} (ROBOCO_TENANT)")

    def _task(self, task_id: str) -> Task:
        return Task(task_id, self.engine, self._follower, self.settings)
