"""The application of Flower: `celery -A roboco.workers.watcher flower`. It has no workspace, no keys and no tools.

It consumes only the replies of workers. Every consumer of kombu restores messages of lost consumers. With other key
names Flower does not read the messages that workers hold, so that its Redis user needs no permission for them.
"""

from roboco.adapters.celery.app import application, configuration
from roboco.settings import read_settings

_HELD = ("unacked_key", "unacked_index_key", "unacked_mutex_key")

_settings = configuration(read_settings().broker)
_options = _settings["broker_transport_options"]
_own = {name: f"{_options[name]}.watcher" for name in _HELD if name in _options}
app = application(_settings | {"broker_transport_options": _options | _own})
