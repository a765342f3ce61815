"""The files of Prometheus and Grafana: they load, and query metrics that exist."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deployment.files import DEPLOY, METRICS
from tests.deployment.queries import unknown_metrics

pytestmark = pytest.mark.slow

MONITORING = DEPLOY / "monitoring"
ALERTS: list[dict[str, Any]] = [
    rule for group in yaml.safe_load((MONITORING / "alerts.yml").read_text())["groups"] for rule in group["rules"]
]
DASHBOARD: dict[str, Any] = json.loads((MONITORING / "grafana/dashboards/roboco.json").read_text())
ALERTS_TEST = Path(__file__).parent / "alerts_test.yml"
PANELS: list[dict[str, Any]] = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]


def test_an_alert_has_a_valid_query_and_is_documented() -> None:
    """It has a valid query, a summary and an action, and README.md of deploy/ names it."""
    for rule in ALERTS:
        assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}
        assert unknown_metrics(rule["expr"]) == set()
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert set(rule["annotations"]) == {"summary", "action"}
        assert f"`{rule['alert']}`" in (DEPLOY / "README.md").read_text()


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool of Prometheus is not installed")
def test_alerts_fire_when_they_should() -> None:
    done = subprocess.run(["promtool", "test", "rules", str(ALERTS_TEST)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_panel_queries_known_metrics() -> None:
    """Its queries are valid, and use the data source that is provisioned."""
    for panel in PANELS:
        sources = yaml.safe_load((MONITORING / "grafana/provisioning/datasources/prometheus.yaml").read_text())
        for target in panel["targets"]:
            assert unknown_metrics(target["expr"]) == set()
            assert target["datasource"]["uid"] == sources["datasources"][0]["uid"]
        assert panel["description"]


def test_every_metric_is_shown() -> None:
    shown = " ".join(target["expr"] for panel in PANELS for target in panel["targets"])
    assert [name for name in sorted(METRICS) if name not in shown] == []
