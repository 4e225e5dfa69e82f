"""Models of every kind to export, rows to ask them, slow sums to compare with, and ways to damage a file."""

import importlib
import shutil
import subprocess

import naive
import numpy as np
import pytest
from hypothesis import strategies as st

from mmbsgd import BudgetedModel
from mmbsgd.scaling import Scaling

TOLERANCE = 1e-4
LABELS = [(-1, 1), (-(2**63), 2**63 - 1), (False, True), (0.1, -2.5), ("no", "yes")]
ODD_NAMES = ["*/ #include <x> /*", "??/", "a\\", '"', "\n\r\t\0\x7f", "žluťoučký 🐎", "{a};"]
ODD_LABELS = [
    ('"quoted"', "back\\slash"),
    ("??/??'??=", "*/ #include <x> //"),
    ("new\nline\r\t", "\x01\x7f12"),
    ("žluťoučký", "日本語 🐎"),
    ("", " "),
    ("%s%n", "\\0\\x41\\777"),
    ("a;b", "{a, b}"),
]


def scaling_of(method, width, generator):
    if method == "none":
        return None
    if method == "unit":
        return Scaling("unit")
    factor = np.exp(generator.normal(size=width) * 2.0)
    if method == "equal":
        factor[:] = factor[0]
    else:
        factor[generator.random(width) < 0.1] = 0.0
    shift = generator.normal(size=width) / np.where(factor == 0.0, 1.0, factor)
    if method == "sparse":
        shift[:] = 0.0
    return Scaling("standard", shift, factor)


SCALINGS = ("none", "equal", "sparse", "standard", "unit")


def model_of(seed=0, width=7, vectors=20, gamma=0.3, size=1.0, scaling="none", labels=(-1, 1), reach=1.0, names=None):
    """reach: sqrt(gamma) times the spread of a vector's values; size: of coefficients."""
    generator = np.random.default_rng(seed)
    points = generator.normal(size=(vectors, width)) * reach / np.sqrt(gamma) + generator.normal()
    points[generator.random(points.shape) < 0.2] = 0.0
    if scaling == "unit":
        points /= np.maximum(np.linalg.norm(points, axis=1, keepdims=True), 1e-30)
    coefficients = generator.normal(size=vectors) * size
    made = scaling_of(scaling, width, generator)
    about = {} if names is None else {"features": names}
    return BudgetedModel(points, coefficients, generator.normal(), gamma, labels, about, made)


def models(scalings=SCALINGS):
    """Of any width, size, gamma, coefficients, scaling and kind of label."""
    return st.builds(
        model_of,
        seed=st.integers(0, 10**6),
        width=st.integers(1, 30),
        vectors=st.integers(0, 60),
        gamma=st.floats(-6, 3).map(lambda power: 10.0**power),
        size=st.floats(-8, 6).map(lambda power: 10.0**power),
        scaling=st.sampled_from(scalings),
        labels=st.sampled_from(LABELS),
        reach=st.floats(-1, 2).map(lambda power: 10.0**power),
    )


def rows_of(model, count=20, seed=0):
    """Raw rows in float32: some at vectors, some near them, some far from all."""
    generator = np.random.default_rng(seed)
    spread = 1.0 / np.sqrt(model.gamma * model.width)
    near = np.zeros((count, model.width))
    if len(model.support_vectors):
        near = model.support_vectors[generator.integers(len(model.support_vectors), size=count)].astype(np.float64)
    rows = near + generator.normal(size=near.shape) * spread * generator.choice([0.0, 0.3, 1.0, 10.0], size=(count, 1))
    rows[generator.random(rows.shape) < 0.2] = 0.0
    scaling = model.scaling
    if scaling is not None and scaling.factor is not None:
        rows = rows / np.where(scaling.factor == 0.0, 1.0, scaling.factor) + scaling.shift
        rows[generator.random(rows.shape) < 0.2] = 0.0
    return rows.astype(np.float32)


def expected_of(model, rows, *, rounded=True):
    """The plain sum in float64; scaled rows are float32, as they are in a model, or not rounded."""
    scaling = model.scaling
    if scaling is not None:
        affine = scaling.factor is not None and not rounded
        rows = (rows.astype(np.float64) - scaling.shift) * scaling.factor if affine else scaling.apply(rows)
    return naive.margins(rows, model.support_vectors, model.coefficients, model.gamma) + model.bias


def assert_close(scores, expected, tolerance=TOLERANCE):
    """To 1e-4, or to that share of the largest value where it is above one."""
    scale = max(1.0, float(np.abs(expected).max(initial=0.0)))
    np.testing.assert_allclose(scores, expected, rtol=0.0, atol=tolerance * scale)


def assert_same_labels(labels, model, expected):
    """But for rows so near the boundary that 1e-4 decides."""
    scale = max(1.0, float(np.abs(expected).max(initial=0.0)))
    clear = np.abs(expected) > TOLERANCE * scale
    wanted = [model.classes[int(value > 0)] for value in expected[clear]]
    found = [label for label, sure in zip(list(labels), clear, strict=True) if sure]
    assert found == wanted


def noise_of(model, rows):
    """What float32 may cost the native model: of its products, its coefficients and its exponentials."""
    scaled = rows if model.scaling is None else model.scaling.apply(rows)
    norms = [np.square(some, dtype=np.float64).sum(axis=1).max(initial=0.0) for some in (scaled, model.support_vectors)]
    exponent = model.gamma * sum(norms) * (model.width + 4)
    return 2.0**-23 * np.abs(model.coefficients).sum() * (exponent + 64)


def trained(labels=("no", "yes"), scaling=None):
    """A model as a study leaves one: raw rows and what it says."""
    from mmbsgd import MultiMergeSVC

    generator = np.random.default_rng(5)
    rows = generator.normal(size=(400, 6)).astype(np.float32)
    truth = (rows[:, 0] * rows[:, 1] > 0.1).astype(int)
    svc = MultiMergeSVC(C=10, gamma=0.4, budget=40, mergees=3, epochs=2, random_state=0).fit(rows, truth)
    fitted = svc.model_
    model = BudgetedModel(
        fitted.support_vectors, fitted.coefficients, fitted.bias, fitted.gamma, labels, scaling=scaling
    )
    raw = rows if scaling is None else scaling.undo(rows).astype(np.float32)
    return model, raw


def tool(name, package):
    """Its path, or a skip that says how to get it."""
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"no {name}: apt install {package}")
    return path


def module(name, package):
    try:
        return importlib.import_module(name)
    except ImportError:
        pytest.skip(f"no {name}: pip install {package}")


def run(*command, **options):
    done = subprocess.run([str(word) for word in command], capture_output=True, check=False, timeout=60, **options)
    assert done.returncode == 0, (command, done.stdout[-500:], done.stderr[-2000:])
    return done


def damages(data, seed=0, count=40):
    """Cut off, with a bit turned, with bytes lost, doubled or put in."""
    generator = np.random.default_rng(seed)
    places = [0, 1, len(data) // 2, len(data) - 1, *generator.integers(1, len(data), size=count).tolist()]
    for place in places:
        yield data[:place]
        yield data[:place] + bytes([data[place] ^ (1 << int(generator.integers(8)))]) + data[place + 1 :]
        yield data[:place] + data[place + 1 :]
        yield data[:place] + data[place : place + 1] + data[place:]
        yield data[:place] + b"\n" + data[place:]


FOREIGN = [b"", b"\n", b"\0" * 100, b"\xff" * 100, b"PK\x03\x04", b"ARROW1\0\0", b"hello\n", b"svm_type c_svc\n" * 3]
