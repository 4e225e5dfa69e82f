"""An ONNX graph of standard operators: float32 `rows` in, `label` in the user's own type and float32 `score` out. Rows
must be finite: where a value is NaN the score is NaN and the label the first one, and of infinite ones neither means
anything. `load` gives a `Session` that refuses them.

    u = sqrt(gamma) (x' - c),  t_j = sqrt(gamma) (s_j - c),  c the mean of the support vectors
    f(x) = sum_j alpha_j exp(2 <u, t_j> - ||t_j||^2 - ||u||^2) + b

x' is scaled in double and rounded to float32, as the model does it. What is left is cancellation in the exponent: it
is off by e sqrt(d) (||u|| + ||t_j||)^2 or so, with d features and e the unit roundoff, and matters where
exp(-||u - t_j||^2) is large, at the support vectors above all. Three precisions, the first that keeps within TOLERANCE:

single       all in float32; tried at support vectors and halfway between two, where a quarter of TOLERANCE is allowed
double       in float64, in twice the time; with R = max ||t_j||, errors are surely below
             e (d + 4) ((2 R + 0.61)^2 + 2) ||alpha||_1, where 2 R + 0.61 >= max_r (2 R + r) exp(-r^2 / 2)
differences  ||u - t_j||^2 in float64, term by term: nothing cancels; many times slower, for huge gamma R^2 only
"""

import hashlib
import json
import math
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from mmbsgd import BudgetedModel
from mmbsgd._version import __version__
from workflows.export.shared import (
    NOT_AS_MANY,
    batches,
    contents,
    feature_names,
    joined,
    labels_of,
    refuse,
    two_labels,
    vectors_of,
)
from workflows.files import written

NAME, FILE = "onnx", "model.onnx"
OPSET, IR = 13, 7
"""Of 2020: every onnxruntime from 1.6 on takes them."""
PRODUCER = "mmbsgd"
TOLERANCE = 1e-4
"""How far decision values may be off."""
ROWS = 2048
"""At once: what lies between two operators stays small."""
_NUMBERS = 2**24
_PROBES = 1000
_OPERATORS = {
    *("Add", "Cast", "Div", "Exp", "Gather", "Gemm", "Greater", "MatMul", "Mul", "Neg"),
    *("ReduceSumSquare", "Sqrt", "Sub", "Unsqueeze", "Where"),
}
Precision = Literal["single", "double", "differences"]


def precision_of(model: BudgetedModel) -> Precision:
    """The fastest that is precise enough."""
    vectors, coefficients = vectors_of(model)
    centred = vectors - vectors.mean(axis=0, dtype=np.float64)
    points = math.sqrt(model.gamma) * centred
    if _error_of_single(points, coefficients, model.bias) <= TOLERANCE / 4:
        return "single"
    radius = math.sqrt(float(np.square(points).sum(axis=1).max()))
    error = 2.0**-53 * (model.width + 4) * ((2.0 * radius + 0.61) ** 2 + 2.0) * float(np.abs(coefficients).sum())
    return "double" if error <= TOLERANCE / 2 else "differences"


def _error_of_single(points: NDArray[np.float64], coefficients: NDArray[np.float64], bias: float) -> float:
    """The largest that float32 makes at support vectors and halfway between neighbours in their list."""
    tried = points[np.unique(np.linspace(0, len(points) - 1, _PROBES, dtype=int))]
    tried = np.concatenate([tried, (tried + np.roll(tried, 1, axis=0)) / 2])
    parts = np.array_split(tried, -(-len(tried) // 256))

    def scores(rows: NDArray[np.float64], kind: type[np.floating[Any]]) -> NDArray[np.float64]:
        t, u = points.astype(kind), rows.astype(kind)
        exponents = u @ (2 * t.T) - np.square(t).sum(axis=1) - np.square(u).sum(axis=1, keepdims=True)
        return np.asarray(np.exp(exponents) @ coefficients.astype(kind) + kind(bias), np.float64)

    with np.errstate(all="ignore"):
        errors = [np.abs(scores(part, np.float32) - scores(part, np.float64)).max() for part in parts]
    return float(np.max(errors))


class _Graph:
    """Nodes and constants in the making."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def constant(self, name: str, numbers: Any) -> str:
        from onnx import numpy_helper

        self.constants.append(numpy_helper.from_array(np.asarray(numbers), name))
        return name

    def add(self, operator: str, *inputs: str, name: str = "", **attributes: Any) -> str:
        from onnx import helper

        name = name or f"{operator.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, list(inputs), [name], **attributes))
        return name


def graph_of(model: BudgetedModel, precision: Precision | None = None) -> Any:
    """The whole ModelProto, checked."""
    import onnx
    from onnx import TensorProto, helper

    precision = precision or precision_of(model)
    graph, labels = _Graph(), labels_of(model)
    score = _score(graph, model, precision)
    positive = graph.add("Greater", score, graph.constant("zero", np.float32(0.0)))
    chosen = graph.add("Cast", positive, to=TensorProto.INT64)
    kind, array = _labels(labels)
    graph.add("Gather", graph.constant("labels", array), chosen, name="label")
    made = helper.make_graph(
        graph.nodes,
        "budgeted_svm",
        [helper.make_tensor_value_info("rows", TensorProto.FLOAT, ["N", model.width])],
        [
            helper.make_tensor_value_info("label", kind, ["N"]),
            helper.make_tensor_value_info("score", TensorProto.FLOAT, ["N"]),
        ],
        graph.constants,
    )
    whole = helper.make_model(
        made,
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR,
        producer_name=PRODUCER,
        producer_version=__version__,
    )
    at_once = ROWS if precision != "differences" else max(1, min(ROWS, _NUMBERS // max(1, model.support_vectors.size)))
    facts = {
        "producer": PRODUCER,
        "version": __version__,
        "classes": json.dumps(labels),
        "features": json.dumps(model.features),
        "rows_at_once": str(at_once),
    }
    helper.set_model_props(whole, facts)
    onnx.checker.check_model(whole, full_check=True)
    return whole


def _labels(labels: tuple[Any, Any]) -> tuple[int, NDArray[Any]]:
    from onnx import TensorProto

    kinds = {
        bool: (TensorProto.BOOL, np.bool_),
        int: (TensorProto.INT64, np.int64),
        float: (TensorProto.DOUBLE, np.float64),
        str: (TensorProto.STRING, np.object_),
    }
    kind, own = kinds[type(labels[0])]
    return kind, np.array(labels, dtype=own)


def _score(graph: _Graph, model: BudgetedModel, precision: Precision) -> str:
    """The output of that name."""
    from onnx import TensorProto

    vectors, coefficients = vectors_of(model)
    points, root = vectors.astype(np.float64), math.sqrt(model.gamma)
    centre = points.mean(axis=0).astype(np.float32).astype(np.float64)
    own = np.float32 if precision == "single" else np.float64
    row = _scaled(graph, model, single=precision == "single")
    row = graph.add("Sub", row, graph.constant("centre", centre.astype(own)))
    row = graph.add("Mul", row, graph.constant("root_of_gamma", own(root)))
    points = (points - centre) * root
    if precision == "differences":
        row = graph.add("Unsqueeze", row, graph.constant("second", np.array([1])))
        apart = graph.add("Sub", row, graph.constant("vectors", points))
        apart = graph.add("ReduceSumSquare", apart, axes=[2], keepdims=0)
        exponent = graph.add("Neg", apart)
    else:
        norm = graph.add("ReduceSumSquare", row, axes=[1], keepdims=1)
        products = graph.add(
            "Gemm",
            row,
            graph.constant("vectors", np.ascontiguousarray(2.0 * points.T).astype(own)),
            graph.constant("norms", -np.square(points).sum(axis=1).astype(own)),
        )
        exponent = graph.add("Sub", products, norm)
    kernels = graph.add("Exp", exponent)
    total = graph.add("MatMul", kernels, graph.constant("coefficients", coefficients.astype(own)))
    bias = graph.constant("bias", own(model.bias))
    if precision == "single":
        return graph.add("Add", total, bias, name="score")
    return graph.add("Cast", graph.add("Add", total, bias), name="score", to=TensorProto.FLOAT)


def _scaled(graph: _Graph, model: BudgetedModel, *, single: bool) -> str:
    """Rows as the model's scaling makes them, rounded to float32 as there, in float32 or float64."""
    from onnx import TensorProto

    row, scaling = "rows", model.scaling
    if scaling is not None:
        row = graph.add("Cast", row, to=TensorProto.DOUBLE)
        if scaling.method == "unit":
            length = graph.add("Sqrt", graph.add("ReduceSumSquare", row, axes=[1], keepdims=1))
            some = graph.add("Greater", length, graph.constant("no_length", np.float64(0.0)))
            length = graph.add("Where", some, length, graph.constant("one", np.float64(1.0)))
            row = graph.add("Div", row, length)
        else:
            row = graph.add("Sub", row, graph.constant("shift", scaling.shift))
            row = graph.add("Mul", row, graph.constant("factor", scaling.factor))
        row = graph.add("Cast", row, to=TensorProto.FLOAT)
    return row if single else graph.add("Cast", row, to=TensorProto.DOUBLE)


def write(model: BudgetedModel, path: Path) -> list[Path]:
    body = graph_of(model).SerializeToString()

    def write_all(beside: Path) -> None:
        beside.write_bytes(body + _tail(body))

    return [written(path, write_all)]


def _tail(body: bytes) -> bytes:
    """One more entry of the metadata: protobuf messages that follow each other are one."""
    from onnx import ModelProto, helper

    last = ModelProto()
    helper.set_model_props(last, {"sha256": hashlib.sha256(body).hexdigest()})
    return bytes(last.SerializeToString())


def load(path: Path, *, threads: int = 1) -> "Session":
    """Only a file that `write` wrote: an ONNX file could name other files and operators that take for ever."""
    data = contents(path)
    cut = len(data) - len(_tail(b""))
    if cut <= 0 or data[cut:] != _tail(data[:cut]):
        refuse(path, "it does not end with the fingerprint that mmbsgd writes")
    from onnx import load_model_from_string

    try:
        whole = load_model_from_string(data)
        _check_harmless(whole)
        facts = {entry.key: entry.value for entry in whole.metadata_props}
        names = feature_names(facts.get("features", "null"))
        return Session(data, two_labels(facts["classes"]), names, int(facts["rows_at_once"]), threads)
    except Exception as error:  # onnxruntime's and protobuf's have no base of their own
        known = isinstance(error, ValueError | KeyError | TypeError)
        if known or type(error).__module__.startswith(("onnxruntime.", "google.protobuf.")):
            refuse(path, error)
        raise


def _check_harmless(whole: Any) -> None:
    """Nothing but the operators written here, and no tensor that lies in another file."""
    from onnx import TensorProto

    graph = whole.graph
    foreign = {node.op_type for node in graph.node if node.domain or node.op_type not in _OPERATORS}
    if foreign or whole.functions:
        raise ValueError(f"it has operators that mmbsgd does not write: {', '.join(sorted(foreign))}")
    outside = any(one.data_location == TensorProto.EXTERNAL or one.external_data for one in graph.initializer)
    if outside or graph.sparse_initializer:
        raise ValueError("its numbers lie in another file")


class Session:
    """The graph in onnxruntime."""

    def __init__(
        self, data: bytes, classes: tuple[Any, Any], features: tuple[str, ...] | None, at_once: int, threads: int
    ) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 4
        self._session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
        self._at_once = min(max(at_once, 1), ROWS)
        (rows,) = self._session.get_inputs()
        names = [one.name for one in self._session.get_outputs()]
        if (rows.name, rows.type, names) != ("rows", "tensor(float)", ["label", "score"]) or len(rows.shape) != 2:
            raise ValueError("it takes or gives other things than rows, label and score")
        self.classes, self.features = classes, features
        self.width = int(rows.shape[1])
        if features is not None and len(features) != self.width:
            raise ValueError(NOT_AS_MANY)

    def decision_function(self, matrix: Any) -> NDArray[np.float64]:
        """Of raw rows; positive for classes[1]."""
        return self._run(matrix, "score", np.float32).astype(np.float64)

    def predict(self, matrix: Any) -> NDArray[Any]:
        """The class of every row."""
        return self._run(matrix, "label", np.asarray(self.classes).dtype)

    def _run(self, matrix: Any, output: str, kind: Any) -> NDArray[Any]:
        parts = batches(matrix, self.width, np.float32, self._at_once)
        return joined([self._session.run([output], {"rows": part})[0] for part in parts], kind)
