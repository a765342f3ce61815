"""The application of Flower: `celery -A roboco.workers.watcher flower`. It has no workspace, no keys and no tools.

It consumes only the replies of workers. Every consumer of kombu restores messages of lost consumers. With other key
names Flower does not read the messages that workers hold, so that its Redis user needs no permission for them.
"""

from roboco.broker.app import app_settings, create_app
from roboco.settings import load_settings

_HELD = ("unacked_key", "unacked_index_key", "unacked_mutex_key")

_settings = app_settings(load_settings().broker)
_options = _settings["broker_transport_options"]
_own = {name: f"{_options[name]}.watcher" for name in _HELD if name in _options}
app = create_app(_settings | {"broker_transport_options": _options | _own})
