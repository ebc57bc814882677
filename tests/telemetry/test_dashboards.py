"""Dashboards and alerts in `deploy/monitoring/` name metrics, labels and values that exist."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from maitred import errors
from maitred.telemetry.instruments import INSTRUMENTS

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy/monitoring"
EXPOSED = {name: one for one in INSTRUMENTS for name in one.exposed_names}
METRIC = re.compile(r"\b(?:maitred|mcp_server)_\w+")
SELECTOR = re.compile(r"\b((?:maitred|mcp)_\w+)\{([^}]*)\}")
GROUPING = re.compile(r"\bby \(([^)]*)\)")
OUTCOMES = re.compile(r'outcome!?=~?"([^"]*)"')


def dashboard() -> Any:
    return json.loads((FOLDER / "grafana-dashboard.json").read_text())


def alerts() -> list[Any]:
    groups = YAML(typ="safe").load((FOLDER / "prometheus-rules.yaml").read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def queries() -> list[str]:
    shown = [target["expr"] for panel in dashboard()["panels"] for target in panel.get("targets", ())]
    return [*shown, *(rule["expr"] for rule in alerts())]


@pytest.mark.parametrize("query", queries())
def test_a_query_names_metrics_and_labels_that_exist(query: str) -> None:
    named = METRIC.findall(query)
    labels = {label for name in named for label in EXPOSED[name].labels} if named else set()
    assert named
    assert set(named) <= set(EXPOSED)
    for name, selector in SELECTOR.findall(query):
        given = set(re.findall(r"(\w+)(?:=~|!~|!=|=)", selector))
        assert given <= {*EXPOSED[name].labels, "job"}
    for grouping in GROUPING.findall(query):
        assert {one.strip() for one in grouping.split(",")} <= {*labels, "le"}


def test_a_query_about_outcomes_names_codes_that_exist() -> None:
    codes = {one.code for one in vars(errors).values() if isinstance(one, type) and hasattr(one, "code")}
    known = {*codes, "ok", "tool_error", "input_required", "failed", "internal"}
    for query in queries():
        for text in OUTCOMES.findall(query):
            assert set(text.split("|")) <= known


def test_a_dashboard_shows_every_metric_that_changes_with_use() -> None:
    shown = set(METRIC.findall(" ".join(queries())))
    unseen = {one.name for one in INSTRUMENTS if not shown & set(one.exposed_names)}
    assert unseen == {"maitred_catalog_generation", "maitred_visibility_changes", "maitred_pages"} - shown


def test_a_dashboard_has_no_overlapping_panels_and_each_has_a_number_of_its_own() -> None:
    panels = dashboard()["panels"]
    cells = [
        (x, y)
        for panel in panels
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(set(cells)) == len(cells)
    assert len({panel["id"] for panel in panels}) == len(panels)


def test_every_alert_says_what_to_do() -> None:
    for rule in alerts():
        assert rule["labels"]["severity"] in ("info", "warning", "critical")
        assert rule["annotations"]["summary"]
        assert rule["annotations"]["description"]


def test_the_page_lists_every_metric_with_its_labels() -> None:
    page = (ROOT / "docs/telemetry.md").read_text()
    rows = dict(re.findall(r"^\| `((?:maitred|mcp)_\w+)` \| ([^|]*)\|", page, re.MULTILINE))
    assert {name: tuple(re.findall(r"`(\w+)`", labels)) for name, labels in rows.items()} == {
        (f"{one.name}_total" if one.kind == "counter" else one.name): one.labels for one in INSTRUMENTS
    }
