"""Kernel values of all training rows to fixed support vectors: what fits is kept, the rest made again in every pass.

    phi_i = (k(x_i, s_1), ..., k(x_i, s_B), 1)        the one stands for the bias, if there is one

Equal rows of one class in one portion count once, with the sum of their weights: data of few or of binary features is
full of them.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from mmbsgd._compile import kernel, summing_kernel
from mmbsgd.gaussian import LOG2_E, squared_distances
from mmbsgd.lanes import LANES, exp2, load, splat, store
from mmbsgd.model import BudgetedModel
from mmbsgd.portions import Portions
from mmbsgd.rows import Rows, span, squared_norm
from mmbsgd.support import BLOCKS, PRECISE, Support

LARGEST_CACHE = 2**28
"""Bytes that are kept, by every fit that runs at the time. Polishing without any takes 1 to 2.6 times as long: measured
with 10, 50 and 123 features, B = 100 and 500."""
PRECISE_FEATURES = 8.0
"""Where gamma ||s||^2 exceeds this, values are from sums of squared differences: products would lose a millionth, which
large coefficients multiply."""
AT_ONCE = 1024
"""Rows that are shown together."""
Numbers = NDArray[np.int64]
Work = Callable[[Numbers, NDArray[np.float32], Numbers], None]
"""Gets the numbers of some rows, a matrix, and the places of these rows in it."""


class KernelFeatures:
    def __init__(self, model: BudgetedModel, portions: Portions, *, bias: bool) -> None:
        self._support, self._portions = replace(model)._support, portions
        if model.gamma * float(self._support.norms.max()) > PRECISE_FEATURES:
            self._support.state[PRECISE] = 1
        self.vectors = len(model.coefficients)
        self.kernel_evaluations = 0
        self._columns = self.vectors + bias
        self._first = [0]
        self._places: list[Numbers] = []
        self._blocks: list[NDArray[np.float32]] = []  # of the first rows of each portion
        weights, room = [np.empty(0)], LARGEST_CACHE // (4 * max(self._columns, 1))

        def look(rows: Rows, signed_weights: NDArray[np.float32]) -> None:
            places, together = distinct(rows, signed_weights)
            weights.append(together)
            self._places.append(places)
            self._first.append(self._first[-1] + len(places))
            self._blocks.append(self._made(rows, places[: max(room - self._first[-2], 0)]))

        portions.visit(range(len(portions)), look)
        self.signed_weights: NDArray[np.float64] = np.concatenate(weights)
        self.bias = bias and bool((self.signed_weights > 0.0).any() and (self.signed_weights < 0.0).any())
        """One class alone says nothing about it."""
        self.size = self.vectors + self.bias

    def show(self, numbers: Numbers, work: Work) -> None:
        """The features of these rows, whose numbers ascend."""
        bounds = np.searchsorted(numbers, self._first).tolist()
        parts = [numbers[begin:end] - first for begin, end, first in zip(bounds, bounds[1:], self._first, strict=False)]
        wanted = [portion for portion, part in enumerate(parts) if len(part)]
        kept = [portion for portion in wanted if parts[portion][-1] < len(self._blocks[portion])]
        for portion in kept:
            for some in _some(parts[portion]):
                work(some + self._first[portion], self._blocks[portion], some)
        waiting = iter(wanted[len(kept) :])  # rows are kept in their order, so that those come first

        def make(rows: Rows, signed_weights: NDArray[np.float32]) -> None:
            portion = next(waiting)
            for some in _some(parts[portion]):
                if some[-1] < len(self._blocks[portion]):
                    work(some + self._first[portion], self._blocks[portion], some)
                else:
                    made = self._made(rows, self._places[portion][some])
                    work(some + self._first[portion], made, np.arange(len(some)))

        if len(kept) < len(wanted):
            self._portions.visit(wanted[len(kept) :], make)

    def products(self, direction: NDArray[np.float64]) -> NDArray[np.float64]:
        """phi_i' direction of every row."""
        out = np.empty(len(self.signed_weights))

        def work(numbers: Numbers, phi: NDArray[np.float32], places: Numbers) -> None:
            fill_products(phi, places, direction, out[numbers[0] : numbers[-1] + 1])

        self.show(np.arange(len(out)), work)
        return out

    def _made(self, rows: Rows, places: Numbers) -> NDArray[np.float32]:
        out = np.ones((len(places), self._columns), np.float32)
        fill_kernel_values(rows, places, self._support, self.vectors, out)
        self.kernel_evaluations += len(places) * self.vectors
        return out


def _some(numbers: Numbers) -> list[Numbers]:
    return [numbers[begin : begin + AT_ONCE] for begin in range(0, len(numbers), AT_ONCE)]


def distinct(rows: Rows, signed_weights: NDArray[np.float32]) -> tuple[Numbers, NDArray[np.float64]]:
    """Where the first of equal rows are, in ascending order, and their weights together."""
    keys = np.empty(len(signed_weights), np.uint64)
    with np.errstate(over="ignore"):  # where Numba is switched off
        fill_keys(rows, signed_weights, keys)
    _, first, groups = np.unique(keys, return_index=True, return_inverse=True)
    order = np.argsort(first)
    together = np.zeros(len(first))
    np.add.at(together, groups, signed_weights)
    return first[order].astype(np.int64), together[order]


@kernel
def fill_keys(rows: Rows, signed_weights: NDArray[np.float32], out: NDArray[np.uint64]) -> None:
    """A number for each row and class: the same for equal ones, and for others by a chance of 2^-64. Zeros add
    nothing, so that dense and sparse rows have the same."""
    for i in range(out.shape[0]):
        row = span(rows, i)
        key = np.uint64(1) if signed_weights[i] > 0.0 else np.uint64(2)
        for k in range(row.length):
            value = rows.values[row.value + k]
            if value != 0.0:
                feature = np.uint64(rows.features[row.feature + k])
                key += mixed((feature << np.uint64(32)) | np.uint64(np.float32(value).view(np.uint32)))
        out[i] = key


@kernel
def mixed(bits: np.uint64) -> np.uint64:
    """The finaliser of splitmix64 (Steele, Lea and Flood, 2014)."""
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


@kernel
def fill_kernel_values(rows: Rows, places: Numbers, support: Support, vectors: int, out: NDArray[np.float32]) -> None:
    """out[i, j] = k(row places[i], s_j)"""
    scale = splat(np.float32(-support.gamma * LOG2_E))
    for i in range(places.shape[0]):
        row = span(rows, places[i])
        squared_distances(rows, row, squared_norm(rows, row), support, support.distances)
        for block in range(support.state[BLOCKS]):
            start = block * LANES
            store(support.distances, start, exp2(load(support.distances, start) * scale))
        for j in range(vectors):
            out[i, j] = support.distances[j]


@summing_kernel
def fill_products(
    phi: NDArray[np.float32], places: Numbers, direction: NDArray[np.float64], out: NDArray[np.float64]
) -> None:
    for i in range(places.shape[0]):
        row = places[i]
        total = 0.0
        for j in range(direction.shape[0]):
            total += np.float64(phi[row, j]) * direction[j]
        out[i] = total


@kernel
def add_rows(
    phi: NDArray[np.float32],
    places: Numbers,
    weights: NDArray[np.float64],
    signs: NDArray[np.float64],
    sums: NDArray[np.float64],
) -> None:
    """sums[class] += weights[i] phi_i"""
    for i in range(places.shape[0]):
        row, own = places[i], 1 if signs[i] > 0.0 else 0
        for j in range(sums.shape[1]):
            sums[own, j] += weights[i] * np.float64(phi[row, j])
