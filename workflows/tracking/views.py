"""Ways to look at a study in MLflow's own pages: links, and a view with the columns and charts that matter.

A view is what MLflow's button 'share' keeps: a tag of the experiment that a link names. An MLflow that does not know it
shows its usual table.
"""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from workflows.tracking.names import metric_name, parameter_name

if TYPE_CHECKING:  # studies need these links
    from workflows.study.snapshot import Snapshot

VIEW = "mmbsgd"
TAG = f"mlflow.sharedViewState.{VIEW}"
_ML = "workflowType=machine_learning"
_SECTION = {
    "uuid": VIEW,
    "name": "Trade-off",
    "display": True,
    "isReordered": True,
    "columns": 1,
    "cardHeight": 420,
}


def study_page(base: str, experiment: str, run: str) -> str:
    """base: a server's address, or nothing for a link within its pages."""
    return f"{base}/#/experiments/{experiment}/runs/{run}?{_ML}" if run else trials_page(base, experiment)


def report_page(base: str, experiment: str, run: str) -> str:
    return f"{base}/#/experiments/{experiment}/runs/{run}/artifacts/report.html?{_ML}"


def trials_page(base: str, experiment: str) -> str:
    return f"{base}/#/experiments/{experiment}/runs?{_ML}&viewStateShareKey={VIEW}"


def charts_page(base: str, experiment: str) -> str:
    return f"{trials_page(base, experiment)}&compareRunsMode=CHART"


def front_page(base: str, experiment: str, score: str) -> str:
    order = quote(f"metrics.`{score}`")
    only = quote("tags.pareto = 'true'")
    return f"{base}/#/experiments/{experiment}/runs?{_ML}&searchFilter={only}&orderByKey={order}&orderByAsc=false"


def view(snapshot: "Snapshot") -> str:
    """Trials by falling score, with their objectives and parameters as columns, and two charts."""
    objectives = [metric_name(name) for name in snapshot.settings.names]
    parameters = list(dict.fromkeys(parameter_name(name) for trial in snapshot.trials for name in trial.parameters))
    columns = [*(f"metrics.`{name}`" for name in objectives), *(f"params.`{name}`" for name in parameters)]
    content = {
        "searchFilter": "",
        "orderByKey": f"metrics.`{objectives[0]}`",
        "orderByAsc": False,
        "startTime": "ALL",
        "lifecycleFilter": "Active",
        "modelVersionFilter": "All Runs",
        "datasetsFilter": [],
        "selectedColumns": [*columns, "tags.`pareto`", "tags.`state`"],
        "compareRunCharts": _charts(objectives, parameters),
        "compareRunSections": [_SECTION],
        "isAccordionReordered": True,
        "viewMaximized": True,
    }
    return json.dumps(content)


def _charts(objectives: Sequence[str], parameters: Sequence[str]) -> list[dict[str, Any]]:
    common = {"isGenerated": False, "deleted": False, "metricSectionId": VIEW}
    return [
        {
            "uuid": "mmbsgd-parallel",
            "type": "PARALLEL",
            "selectedParams": list(parameters),
            "selectedMetrics": list(objectives),
            "showAllRuns": True,
            **common,
        },
        {
            "uuid": "mmbsgd-scatter",
            "type": "SCATTER",
            "xaxis": {"key": objectives[1], "type": "METRIC"},
            "yaxis": {"key": objectives[0], "type": "METRIC"},
            "runsCountToCompare": 100,
            **common,
        },
    ]
