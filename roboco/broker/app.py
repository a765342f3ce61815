"""The settings of every Celery application of Roboco: workers, producers and Flower."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from celery import Celery
from kombu import Queue

from roboco.broker.broker import broker_settings, queue_arguments
from roboco.broker.message_signing import SigningKeys, sign_messages
from roboco.broker.names import COORDINATOR_QUEUE, QUEUE_OF, QUEUES, queue_lanes
from roboco.domain.dead_letter import DeadLetter

DeadLetterSink = Callable[[DeadLetter], None]
"""Stores a dead letter.

The worker's main loop calls it, so it must fail soon rather than wait. If it raises, the message is redelivered. If an
acknowledgement is lost, the same letter is stored again under the same id.
"""


def app_settings(
    broker_url: str,
    *,
    pool: str = "prefork",
    concurrency: int | None = None,
    sink: DeadLetterSink | None = None,
    keys: tuple[str, ...] = (),
) -> dict[str, Any]:
    """Return the settings of one application. A pool adds its own settings with `|`.

    `sink` stores the dead letters of the guarded consumer. A `concurrency` of None means one per CPU. With `keys`
    messages are signed, and unsigned ones become dead letters. Messages are acknowledged before execution (early); a
    Celery task opts into late acknowledgement with `acks_late`. The limit of connections that send is the default:
    kombu has one limit for all applications of a process, and fails if one of them lowers it while another sends.
    """
    return {
        **broker_settings(broker_url),
        "broker_connection_retry_on_startup": True,
        "broker_connection_max_retries": None,
        "broker_channel_error_retry": True,  # an error of the broker ends no worker
        "broker_pool_acquire_timeout": 5,
        # The exchange "" routes directly to the list that is the queue. Kombu stores the bindings of any other exchange
        # in the broker, which could lose them.
        "task_default_exchange": "",
        "task_default_queue": COORDINATOR_QUEUE,
        "task_queues": [
            Queue(lane, routing_key=lane, queue_arguments=queue_arguments(broker_url))
            for name in QUEUES
            for lane in queue_lanes(name)
        ],
        "task_routes": {task: {"queue": queue} for task, queue in QUEUE_OF.items()},
        "task_create_missing_queues": False,
        "task_publish_retry_policy": {
            "max_retries": 3,
            "interval_start": 0,
            "interval_step": 0.2,
            "interval_max": 0.5,
        },
        "task_serializer": "json",
        "accept_content": ["json"],
        "task_ignore_result": True,
        "result_backend": None,
        "task_acks_late": False,
        "task_reject_on_worker_lost": True,  # for late acknowledgement; else a killed child process loses the message
        "task_send_sent_event": True,
        "task_repr_maxlevels": 2,
        "worker_consumer": "roboco.broker.consumer:GuardedConsumer",
        "worker_pool": pool,
        "worker_concurrency": concurrency,
        "worker_prefetch_multiplier": 1,
        "worker_cancel_long_running_tasks_on_connection_loss": False,
        "worker_send_task_events": True,
        "worker_enable_remote_control": True,  # Flower queries the workers through it
        "worker_hijack_root_logger": False,
        "roboco_dead_letter_sink": sink,
        "roboco_signing_keys": SigningKeys(keys),
    }


def callback_settings(broker_url: str) -> dict[str, Any]:
    """Return the settings of an application that sends callbacks to a shop's broker, and consumes nothing."""
    ours = app_settings(broker_url)
    options = ours["broker_transport_options"]
    kept = ("broker_url", "broker_pool_acquire_timeout", "task_publish_retry_policy", "task_serializer")
    sockets = ("socket_timeout", "socket_connect_timeout", "socket_keepalive", "health_check_interval", "client_name")
    return {name: ours[name] for name in kept} | {
        "broker_transport_options": {name: options[name] for name in sockets if name in options},
        "accept_content": ["json"],
    }


def create_app(settings: Mapping[str, Any], queues: Iterable[str] = QUEUES) -> Celery:
    """Return an application that can send to every queue. Its workers consume `queues` and their lanes, or `-Q`.

    It does not become Celery's current application, which may be that of a service that submits tasks.
    """
    app = Celery("roboco", set_as_current=False)
    app.conf.update(settings)
    app.amqp.queues.select([lane for name in queues for lane in queue_lanes(name) if lane in app.amqp.queues])
    sign_messages(app, app.conf["roboco_signing_keys"])
    return app
