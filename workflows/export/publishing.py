"""An exported model in MLflow: logged to the study's run, registered under a name, with its card for all to read."""

from workflows.export import mlflow_model, onnx_graph
from workflows.export.card import FRONT, PICTURE
from workflows.export.exporting import Exported
from workflows.tracking.address import Address
from workflows.tracking.note import GAP
from workflows.tracking.store import Store
from workflows.tracking.views import report_page

NAME = "model"


def log(
    exported: Exported, where: Address, experiment: str, run: str, register: str | None = None, alias: str | None = None
) -> str:
    """Returns the version that it is registered as, if it shall be."""
    store, model = Store(where), exported.model
    graph = exported.folder / mlflow_model.FILE / "artifacts" / onnx_graph.FILE
    arguments = mlflow_model.arguments(model, graph, exported.example)
    version = store.log_model(experiment, run, NAME, arguments, register)
    store.log(run, tags={"mmbsgd.exported": str(model.metadata["trial"])})
    store.upload(run, exported.folder, below="export")
    if register:
        store.describe_version(register, version, _for_mlflow(exported.card, experiment, run), alias)
    return version


def _for_mlflow(card: str, experiment: str, run: str) -> str:
    """Its pages have no files to show in a text, and no space between the columns of a table."""
    picture, link = f"![{FRONT}]({PICTURE})", f"[{FRONT}]({report_page('', experiment, run)})"
    return card.replace(picture, link).replace(" | ", f"{GAP} | ")
