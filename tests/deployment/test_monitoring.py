"""The files of Prometheus and Grafana: they load, and query metrics that exist."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deployment.files import DEPLOY, METRICS
from tests.deployment.queries import aggregations, unknown_metrics

pytestmark = pytest.mark.slow

MONITORING = DEPLOY / "monitoring"
ALERTS: list[dict[str, Any]] = [
    rule for group in yaml.safe_load((MONITORING / "alerts.yml").read_text())["groups"] for rule in group["rules"]
]
DASHBOARD: dict[str, Any] = json.loads((MONITORING / "grafana/dashboards/roboco.json").read_text())
SAME_IN_EACH_COORDINATOR = {"roboco_open_tasks", "roboco_dead_letters", "roboco_queue_length", "roboco_unread_messages"}
"""Metrics that every coordinator reports with the same value, so their sum would grow with the workers."""
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


def test_alert_names_are_unique() -> None:
    assert len({rule["alert"] for rule in ALERTS}) == len(ALERTS)


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool of Prometheus is not installed")
def test_alerts_fire_when_they_should() -> None:
    done = subprocess.run(["promtool", "test", "rules", str(ALERTS_TEST)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_is_tested() -> None:
    assert [rule["alert"] for rule in ALERTS if rule["alert"] not in ALERTS_TEST.read_text()] == []


def test_a_panel_queries_known_metrics() -> None:
    """Its queries are valid, and use the data source that is provisioned."""
    for panel in PANELS:
        sources = yaml.safe_load((MONITORING / "grafana/provisioning/datasources/prometheus.yaml").read_text())
        for target in panel["targets"]:
            assert unknown_metrics(target["expr"]) == set()
            assert target["datasource"]["uid"] == sources["datasources"][0]["uid"]
        assert panel["description"]


def test_a_legend_names_labels_of_its_query() -> None:
    """A series whose legend names another label would have no name."""
    for panel in PANELS:
        for target in panel["targets"]:
            labels = {name for names in re.findall(r"by \(([^)]*)\)", target["expr"]) for name in names.split(", ")} - {
                "le"
            }
            assert set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])) <= labels


def test_panels_do_not_overlap() -> None:
    taken = [
        (x, y)
        for panel in DASHBOARD["panels"]
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(taken) == len(set(taken))
    assert max(x for x, _ in taken) < 24


def test_every_metric_is_shown() -> None:
    shown = " ".join(target["expr"] for panel in PANELS for target in panel["targets"])
    assert [name for name in sorted(METRICS) if name not in shown] == []


def test_metrics_that_are_the_same_in_each_coordinator_are_not_summed() -> None:
    objects = yaml.safe_load_all((DEPLOY / "kubernetes/keda/scaled-objects.yaml").read_text())
    scales = [trigger["metadata"]["query"] for one in objects for trigger in one["spec"]["triggers"]]
    queries = scales + [rule["expr"] for rule in ALERTS] + [one["expr"] for panel in PANELS for one in panel["targets"]]
    found = {
        (name, aggregation)
        for query in queries
        for name, aggregation in aggregations(query)
        if name in SAME_IN_EACH_COORDINATOR
    }
    assert {name for name, _ in found} == SAME_IN_EACH_COORDINATOR
    assert {aggregation for _, aggregation in found} <= {"max", "min"}
    assert list(aggregations("sum(roboco_queue_length) > 1")) == [("roboco_queue_length", "sum")], "a sum is recognised"


def test_an_invalid_query_is_found() -> None:
    assert unknown_metrics("sum(rate(roboco_turns_total[5m])) > up") == {"roboco_turns_total"}
    assert unknown_metrics("roboco_turn_seconds") == {"roboco_turn_seconds"}, (
        "a histogram has no metric of its bare name"
    )
    with pytest.raises(ValueError, match="unclosed left parenthesis"):
        unknown_metrics("sum(rate(roboco_tokens_total[5m])")


def test_scraped_services_and_mounted_files_exist() -> None:
    """The services and folders that they name are in compose.yaml."""
    scrape = yaml.safe_load((MONITORING / "prometheus.yml").read_text())
    services = yaml.safe_load((DEPLOY.parent / "compose.yaml").read_text())["services"]
    scraped = {
        name for job in scrape["scrape_configs"] for one in job.get("dns_sd_configs", ()) for name in one["names"]
    }
    assert scraped == {"coordinator", "agents", "tools", "gateway"} <= set(services)
    mounted = [volume.split(":")[1] for volume in (*services["prometheus"]["volumes"], *services["grafana"]["volumes"])]
    assert all(f"/etc/prometheus/{file}" in mounted for file in scrape["rule_files"])
    provider = yaml.safe_load((MONITORING / "grafana/provisioning/dashboards/roboco.yaml").read_text())["providers"][0]
    assert provider["options"]["path"] in mounted
