"""BudgetedModel: what a trained model is; decide, save, load.

    f(x) = sum_j alpha_j exp(-gamma ||s_j - x'||^2) + b,  x' = x, or x as the model's scaling makes it

The file is one Arrow IPC file: a record batch of (coefficient, support vector) rows, everything else in the schema's
metadata. It holds no code and no pickle, so that loading one cannot run anything.
"""

import hashlib
import json
import math
import os
import tempfile
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mmbsgd.errors import InputError, ModelFileError
from mmbsgd.gaussian import margins, tile_for
from mmbsgd.lanes import LANES
from mmbsgd.rows import checked, is_sparse, rows_of, span, squared_norm
from mmbsgd.scaling import Scaling, parts
from mmbsgd.support import BLOCKS, COUNT, PRECISE, Support, empty_support, place, set_norm

FORMAT = "mmbsgd.BudgetedModel"
FORMAT_VERSION = 2
ROUNDING, WORTH_DIFFERENCES = 2.0**-23, 1e-3
"""What products of float32 lose of gamma ||s||^2 in an exponent; and of a decision value, before distances are computed
as sums of squared differences, which takes longer where rows are sparse."""
_READABLE = ("1", "2")
"""1 had no scaling."""


@dataclass(frozen=True, eq=False)
class BudgetedModel:
    """A budgeted Gaussian-kernel machine. Immutable: its arrays are read-only."""

    support_vectors: NDArray[np.float32]  # (vectors, d)
    coefficients: NDArray[np.float64]  # (vectors,) alpha
    bias: float
    gamma: float
    classes: tuple[Any, Any] = (-1, 1)
    metadata: dict[str, Any] = field(default_factory=dict)
    scaling: Scaling | None = None
    """What is done to raw rows first; None: it takes rows as its support vectors are."""

    def __post_init__(self) -> None:
        vectors = np.array(self.support_vectors, dtype=np.float32, order="C", ndmin=2)
        coefficients = np.array(self.coefficients, dtype=np.float64)
        if coefficients.shape != (len(vectors),):
            raise InputError(f"{len(vectors)} support vectors need as many coefficients, not {coefficients.shape}")
        if not (0.0 < self.gamma < math.inf and math.isfinite(self.bias)):
            raise InputError(f"gamma={self.gamma!r} must be above zero and bias={self.bias!r} a number")
        if len(self.classes) != 2 or self.classes[0] == self.classes[1]:
            raise InputError(f"classes={self.classes!r} must be two different labels")
        if self.scaling is not None and self.scaling.method == "none":
            object.__setattr__(self, "scaling", None)
        if self.scaling is not None and self.scaling.width not in (None, vectors.shape[1]):
            raise InputError(f"the scaling is for {self.scaling.width} features, not {vectors.shape[1]}")
        for name, array in (("support_vectors", vectors), ("coefficients", coefficients)):
            array.flags.writeable = False
            object.__setattr__(self, name, array)

    @property
    def width(self) -> int:
        return int(self.support_vectors.shape[1])

    @property
    def features(self) -> tuple[str, ...] | None:
        """Their names, if the training data had some."""
        names = self.metadata.get("features")
        return tuple(names) if names else None

    def without_scaling(self) -> "BudgetedModel":
        """The same model for rows that are scaled already."""
        return replace(self, scaling=None)

    def decision_function(self, matrix: Any) -> NDArray[np.float64]:
        """f(x) of every row of a dense or CSR matrix; positive for classes[1]."""
        matrix = matrix.tocsr() if hasattr(matrix, "tocsr") else np.asarray(matrix)
        if matrix.ndim != 2 or matrix.shape[1] != self.width:
            raise InputError(f"this model takes rows of {self.width} features; these have shape {matrix.shape}")
        if self.scaling is not None:
            if is_sparse(matrix) and self.scaling.shifts:  # they become dense, a few at a time
                few = (matrix[part].toarray() for part in parts(matrix.shape[0], self.width))
                return np.concatenate([np.empty(0), *map(self.decision_function, few)])
            matrix = self.scaling.apply(matrix)
        rows = rows_of(checked(_single(matrix)))
        out = np.empty(matrix.shape[0], np.float32)
        margins(rows, 0, self._support, tile_for(rows), out)
        return out.astype(np.float64) * self._unit + self.bias

    def predict(self, matrix: Any) -> NDArray[Any]:
        """The class of every row."""
        return np.asarray(self.classes)[(self.decision_function(matrix) > 0).astype(np.intp)]

    @cached_property
    def _unit(self) -> float:
        # Coefficients enter the kernels as float32: scaled to the order of one, none overflows or vanishes.
        largest = float(np.abs(self.coefficients).max(initial=0.0))
        return largest if largest > 0.0 else 1.0

    @cached_property
    def _support(self) -> Support:
        count = len(self.coefficients)
        support = empty_support(max(count, 1), self.width, self.gamma)
        support.beta[:count] = self.coefficients / self._unit
        support.state[COUNT], support.state[BLOCKS] = count, -(-count // LANES)
        rows = rows_of(self.support_vectors)
        for slot in range(count):
            place(support, slot, self.support_vectors[slot])
            set_norm(support, slot, squared_norm(rows, span(rows, slot)))
        size = float(np.linalg.norm(support.beta)) * self._unit
        lost = ROUNDING * self.gamma * float(support.norms.max()) * size
        if lost > WORTH_DIFFERENCES:
            support.state[PRECISE] = 1
        return support

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes one Arrow IPC file: aside first, then renamed, so that a reader never sees half of it."""
        path = Path(path)
        batch = pa.record_batch(
            [
                pa.array(self.coefficients),
                pa.FixedSizeListArray.from_arrays(pa.array(self.support_vectors.reshape(-1)), self.width),
            ],
            names=["coefficient", "support_vector"],
        )
        header = {
            "bias": float(self.bias).hex(),
            "gamma": float(self.gamma).hex(),
            "classes": [_plain(value) for value in self.classes],
            "metadata": self.metadata,
            "scaling": None if self.scaling is None else self.scaling.as_dict(),
        }
        written = json.dumps(header)
        schema = batch.schema.with_metadata(
            {
                "format": FORMAT,
                "version": str(FORMAT_VERSION),
                "model": written,
                "sha256": _fingerprint(written.encode(), self.coefficients, self.support_vectors),
            }
        )
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
        os.close(handle)
        try:
            with pa.OSFile(temporary, "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
                writer.write_batch(batch.replace_schema_metadata(schema.metadata))
            os.chmod(temporary, 0o666 & ~_umask())
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "BudgetedModel":
        """Reads what `save` wrote, bit for bit."""
        try:
            data = Path(path).read_bytes()
        except OSError as error:
            raise ModelFileError(f"cannot read model {os.fspath(path)}: {error.strerror}") from None
        try:
            reader = pa.ipc.open_file(pa.BufferReader(data))
            schema = reader.schema
        except (pa.ArrowInvalid, pa.ArrowTypeError, OSError) as error:
            raise ModelFileError(
                f"{os.fspath(path)} is not a complete model file (damaged, truncated or of another kind): {error}"
            ) from None
        return cls._from_reader(os.fspath(path), reader, schema.metadata or {})

    @classmethod
    def _from_reader(cls, path: str, reader: Any, metadata: dict[bytes, bytes]) -> "BudgetedModel":
        if metadata.get(b"format") != FORMAT.encode():
            raise ModelFileError(f"{path} is an Arrow file, but not a model: save one with BudgetedModel.save")
        version = metadata.get(b"version", b"").decode(errors="replace")
        if version not in _READABLE:
            raise ModelFileError(
                f"{path} has format version {version or 'unknown'}; this mmbsgd reads {' and '.join(_READABLE)}: "
                "upgrade mmbsgd or save the model again with this version"
            )
        try:
            header = json.loads(metadata[b"model"])
            table = reader.read_all()
            table.validate(full=True)
            coefficients = table.column("coefficient").to_numpy()
            vectors = table.column("support_vector").combine_chunks()
            width = vectors.type.list_size
            points = vectors.flatten().to_numpy().reshape(-1, width) if len(vectors) else np.empty((0, width))
            if _fingerprint(metadata[b"model"], coefficients, points).encode() != metadata[b"sha256"]:
                raise ModelFileError(f"{path} is damaged: its values do not match their fingerprint; save it again")
            return cls(
                support_vectors=points,
                coefficients=coefficients,
                bias=float.fromhex(header["bias"]),
                gamma=float.fromhex(header["gamma"]),
                classes=tuple(header["classes"]),
                metadata=header["metadata"],
                scaling=Scaling(**header["scaling"]) if header.get("scaling") else None,
            )
        except (pa.ArrowException, KeyError, TypeError, AttributeError, OSError) as error:
            raise ModelFileError(f"{path} is damaged: {error}") from None
        except ValueError as error:
            if isinstance(error, ModelFileError):
                raise
            raise ModelFileError(f"{path} is damaged: {error}") from None


def _fingerprint(header: bytes, coefficients: NDArray[Any], points: NDArray[Any]) -> str:
    digest = hashlib.sha256(header)
    digest.update(np.ascontiguousarray(coefficients, np.float64).tobytes())
    digest.update(np.ascontiguousarray(points, np.float32).tobytes())
    return digest.hexdigest()


def _single(matrix: Any) -> Any:
    """Float32, C-ordered; values too large for it become infinite, which `checked` reports."""
    with np.errstate(over="ignore"):
        narrow = matrix.astype(np.float32, copy=False)
    return narrow if is_sparse(narrow) else np.ascontiguousarray(narrow)


def _plain(value: Any) -> Any:
    """A label as JSON can hold it."""
    plain = value.item() if isinstance(value, np.generic) else value
    if not isinstance(plain, (bool, int, float, str)) or (isinstance(plain, float) and not math.isfinite(plain)):
        raise InputError(f"a label must be a number, a boolean or a string to be saved, not {value!r}")
    return plain


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
