"""unread_messages: a coordinator searches its broker for messages in lists that no worker reads.

Such a message waits for ever: a setting of its producer gives the list another name. The coordinator logs each list
once, with the setting and the remedy, and exports the number of messages. Each search reads a bounded number of keys.
"""

import logging
from collections import Counter
from collections.abc import Mapping
from typing import Final

from celery import Celery
from redis.exceptions import NoPermissionError

from roboco.broker.unread_lists import UnreadLists
from roboco.errors import TransientError

SEARCH_INTERVAL: Final = 10.0
"""Seconds between two searches."""
PAGES: Final = 10
"""Pages of keys that a search reads: some milliseconds of Redis."""

_log = logging.getLogger(__name__)


class UnreadMessages:
    """The messages that no worker reads, as a coordinator has found them."""

    def __init__(self, app: Celery) -> None:
        self._lists = UnreadLists(app)
        self._logged = set[str]()
        self._by_setting: Mapping[str, int] = {}

    def search(self) -> bool:
        """Search the next pages of keys. Return False if the user of the broker may not search."""
        try:
            self._lists.search(PAGES)
            found = self._lists.found()
        except TransientError as error:
            if not isinstance(error.__cause__, NoPermissionError):
                _log.info("messages without readers are not searched now: %s", error)
                return True
            _log.warning("messages without readers are not searched: give the user of the broker the right to SCAN")
            return False
        counts = Counter[str]()
        for one in found:
            counts[one.setting] += one.waiting
            if one.name not in self._logged:
                _log.error("%s: %s, and %s", one, one.remedy, one.move)
        self._by_setting, self._logged = counts, {one.name for one in found}
        return True

    def by_setting(self) -> Mapping[str, int]:
        """Return the messages that the last search found, by the producer's setting."""
        return self._by_setting
