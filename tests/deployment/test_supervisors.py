"""The guides for systemd and supervisord: their signals reach the main process of a worker alone, and in time."""

from configparser import ConfigParser

from roboco.workers.draining import EXIT_GRACE
from tests.support.documents import example

DRAIN = 75
"""ROBOCO_DRAIN_TIMEOUT in both examples."""


def read(name: str, section: str) -> dict[str, str]:
    """Return the settings of a section of the example."""
    parser = ConfigParser(interpolation=None)
    parser.optionxform = str  # type: ignore[assignment] # names of systemd have capitals
    parser.read_string(example("file", name))
    return dict(parser[section])


def test_systemd_terminates_the_main_process_and_kills_the_others() -> None:
    service = read("roboco-tools.service", "Service")
    assert service["KillMode"] == "mixed"
    assert service["Environment"] == f"ROBOCO_DRAIN_TIMEOUT={DRAIN}"
    assert int(service["TimeoutStopSec"]) >= DRAIN + EXIT_GRACE


def test_supervisord_terminates_the_main_process_and_kills_the_group() -> None:
    program = read("roboco-tools.ini", "program:roboco-tools")
    assert (program["stopsignal"], program["stopasgroup"], program["killasgroup"]) == ("TERM", "false", "true")
    assert program["environment"] == f'ROBOCO_DRAIN_TIMEOUT="{DRAIN}"'
    assert int(program["stopwaitsecs"]) >= DRAIN + EXIT_GRACE
