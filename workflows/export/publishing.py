"""An exported model in MLflow: logged to the study's run, registered under a name, with its card for all to read."""

import re

from workflows.errors import ExportError
from workflows.export import mlflow_model, onnx_graph
from workflows.export.card import FRONT, PICTURE
from workflows.export.exporting import CARD, Exported
from workflows.tracking.address import Address
from workflows.tracking.note import GAP
from workflows.tracking.store import Store
from workflows.tracking.views import report_page

NAME = "model"


def check_names(register: str | None, alias: str | None) -> None:
    """MLflow's rules, before any work is done."""
    if register is not None and (not register.strip() or "/" in register or ":" in register):
        raise ExportError(f"--register {register!r}: a name in MLflow is not empty and has neither '/' nor ':'")
    reserved = alias is not None and re.fullmatch(r"latest|v\d+", alias, re.IGNORECASE)
    if alias is not None and (reserved or not re.fullmatch(r"[\w-]{1,255}", alias, re.ASCII)):
        raise ExportError(
            f"--alias {alias!r}: an alias in MLflow has letters, digits, '-' and '_' alone, and is neither 'latest' "
            "nor a version such as 'v1'"
        )


def log(
    exported: Exported, where: Address, experiment: str, run: str, register: str | None = None, alias: str | None = None
) -> str:
    """Returns the version that it is registered as, if it shall be."""
    store, model = Store(where), exported.model
    graph = exported.folder / mlflow_model.FILE / "artifacts" / onnx_graph.FILE
    arguments = mlflow_model.arguments(model, graph, exported.example)
    arguments["artifacts"] |= {name: str(exported.folder / name) for name in (CARD, PICTURE)}
    version = store.log_model(experiment, run, NAME, arguments, register)
    store.log(run, tags={"mmbsgd.exported": str(model.metadata["trial"])})
    store.upload(run, exported.folder, below=f"export/trial-{model.metadata['trial']}-{exported.fingerprint[:8]}")
    if register:
        store.describe_version(register, version, _for_mlflow(exported.card, experiment, run), alias)
    return version


def _for_mlflow(card: str, experiment: str, run: str) -> str:
    """Its pages have no files to show in a text, and no space between the columns of a table."""
    picture, link = f"![{FRONT}]({PICTURE})", f"[{FRONT}]({report_page('', experiment, run)})"
    return card.replace(picture, link).replace(" | ", f"{GAP} | ")
