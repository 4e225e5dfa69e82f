"""Polishing: the best coefficients and bias for the support vectors that SGD has found.

    P(alpha, b) = 1/2 alpha' K alpha + sum_i c_i max(0, z_i),   z_i = 1 - y_i (phi_i' alpha + b),   c_i = C w_i
    phi_ij      = k(x_i, s_j); K_jl = k(s_j, s_l), and RIDGE on its diagonal

It is convex and small: B + 1 unknowns, however many rows there are. Newton's method on a smoothed hinge, loss_h,
follows the optimum while the rounding of the corner, h, shrinks:

    a_i         c_i loss_h'(z_i), between 0 and c_i: with the classes balanced, a feasible point of the dual problem
    H           K + 1/(2h) sum over the zone of c_i phi_i phi_i'

A step costs one product of all rows with its direction. Rows whose a_i has changed correct the gradient, rows that have
entered or left the zone correct H; late in the game both are few. When h shrinks, the first step keeps the zone as it
is, because the margins in it shrink with h. The best multiple of the dual point bounds the optimum from below, so that
the distance to it is known: it ends when that is GAP of P.

Tried on the paper's sets with B = 500, and left: averaged SGD and dual coordinate descent on whitened features (their
product, n B^2, alone takes longer), Newton's method at a fixed small h (up to four times the steps), a wider zone for H
(as many steps, each dearer), H from a part of the zone (it need not converge), a start from the solution for some
thousand rows (it fits them and not the others).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.linalg.blas import dsyrk
from scipy.linalg.lapack import dpotrf, dpotrs

from mmbsgd.bias import calibrated_bias
from mmbsgd.kernel_features import KernelFeatures, Numbers, add_rows
from mmbsgd.model import BudgetedModel
from mmbsgd.one_thread import one_thread
from mmbsgd.portions import Portions, Whole
from mmbsgd.rows import rows_of
from mmbsgd.smoothed_hinge import fill_duals, losses, step_size

GAP = 1e-3
NOTHING = 1e-18
"""The part of the zero model's P that is no distance: where a class weighs next to nothing, so does the optimum, and
rounding hides how near it is."""
RIDGE = 1e-5
"""Near-duplicates share a coefficient instead of having huge ones of opposite signs, which would fit the rounding of
float32 and lose digits in every prediction; it is part of P, and less than a thousandth of it."""
WIDEST, WIDEST_AT_ZERO = 1.0, 1.5
"""The first h. At zero all rows have z = 1: they must lie in the zone."""
READY = 0.5
"""The part of the gap that may be due to Newton's method, not to h, when h shrinks."""
WORTH_A_SHIFT = 1e-4
"""The part of all weight that must be classified better for the bias to leave its optimum: less is luck."""
LEAST, MOST = 0.5, 0.4
"""What h shrinks to at least and at most, as a part of it."""


@dataclass(frozen=True)
class Polished:
    model: BudgetedModel
    passes: int
    """Over all rows: one for the start, and one for each step."""
    objective: float
    """P / (n C), with n the sum of all weights: the regulariser and the mean loss, before the bias is calibrated."""
    gap: float
    """How far P may be above the optimum, as a part of P: at most 1."""
    kernel_evaluations: int
    multiplications: int
    """Of everything else: products with directions, sums of rows and of their squares, factorisations."""


def polish(
    model: BudgetedModel,
    portions: Portions,
    *,
    cost: float,
    passes: int,
    bias: str = "calibrated",
    look: Callable[[int], None] = lambda passes: None,
) -> Polished:
    """model: the start. cost: C, for a signed weight of one. bias: "optimal", "calibrated" (P decides the coefficients,
    the training error the threshold) or "none"; one class alone has none. look: called after every pass."""
    with one_thread:
        features = KernelFeatures(model, portions, bias=bias != "none")
        descent = _Descent(features, model, cost)
        used = descent.run(passes, look)
    best = descent.best
    threshold = best.solution[-1] if features.bias else 0.0
    if features.bias and bias == "calibrated":
        threshold += calibrated_bias(descent.signs * best.margins, features.signed_weights, WORTH_A_SHIFT)
    return Polished(
        replace(model, coefficients=best.solution[: features.vectors], bias=float(threshold)),
        used,
        best.value / descent.cost,
        descent.gap,
        features.kernel_evaluations,
        descent.multiplications,
    )


@cache
def compile_kernels() -> None:
    """Or loads them: by a problem that needs most of them."""
    points = np.array([[0.0], [1.0], [2.0], [3.0]], np.float32)
    rows = Whole(rows_of(points), np.array([1, -1, 1, -1], np.float32))
    polish(BudgetedModel(points[:2], np.array([1.0, -1.0]), 0.0, 1.0), rows, cost=1.0, passes=5)
    step_size(np.empty(0), np.empty(0), np.empty(0), 1.0, 0.0, 0.0)


@dataclass(frozen=True)
class _Point:
    solution: NDArray[np.float64]
    """alpha, and b if there is one."""
    margins: NDArray[np.float64]
    """y_i f(x_i)"""
    pull: NDArray[np.float64]
    """K alpha"""
    value: float
    """P"""


class _Descent:
    """Where it is, and the sums over rows that go with it."""

    def __init__(self, features: KernelFeatures, model: BudgetedModel, cost: float) -> None:
        self._features, self._vectors, size = features, features.vectors, features.size
        self.costs = cost * np.abs(features.signed_weights)
        self.cost = float(self.costs.sum())
        self.signs = np.where(features.signed_weights > 0, 1.0, -1.0)
        self._kernel = np.zeros((size, size), order="F")
        self._kernel[: self._vectors, : self._vectors] = kernel_matrix(model)
        self._factor = dpotrf(self._kernel[: self._vectors, : self._vectors], lower=1)[0]
        self._usual = np.append(np.ones(self._vectors), [self.cost] * (size - self._vectors))  # diagonal of H
        self._duals = np.zeros(len(self.costs))
        self._sums = np.zeros((2, size))  # of a_i phi_i, over the rows of either class
        self._zone = np.zeros(len(self.costs), np.bool_)
        self._curvature = np.zeros((size, size), order="F")  # lower half: of c_i phi_i phi_i' over the zone
        self.multiplications = size**3 // 6
        self.best = self._at = self._start(np.append(model.coefficients, [model.bias] * (size - self._vectors)))
        self.gap = np.inf

    def _start(self, given: NDArray[np.float64]) -> _Point:
        """The best multiple of SGD's solution, whose size is noise; with a large C that may be none of it."""
        margins, pull = self.signs * self._products(given), self._kernel @ given
        sizes, squared = np.array([1.0, *np.geomspace(0.7, 1e-4, 30), 0.0]), float(given @ pull)
        values = [losses(margins, self.costs, size) + 0.5 * size * size * squared for size in sizes]
        best = int(np.argmin(values))
        return _Point(sizes[best] * given, sizes[best] * margins, sizes[best] * pull, values[best])

    def _products(self, direction: NDArray[np.float64]) -> NDArray[np.float64]:
        self.multiplications += len(self.costs) * len(direction)
        return self._features.products(direction)

    def run(self, passes: int, look: Callable[[int], None]) -> int:
        """The number of passes that it took: one for the start, and one for each step."""
        h, bound = WIDEST if self._at.solution.any() else WIDEST_AT_ZERO, 0.0
        for used in range(1, passes + 1):
            self._set_duals(h)
            below, unbalanced = self._bound()
            bound = max(bound, below)
            if self._at.value <= self.best.value:
                self.best = self._at
            above = self.best.value - bound
            self.gap = above / max(self.best.value, 1e-300)
            look(used)
            if self.gap <= GAP or above <= NOTHING * self.cost or used == passes:
                return used
            zone, missing = np.abs(1.0 - self._at.margins) < h, self._at.value - below
            by_newton, allowed = self._left_by_newton(), 0.5 * GAP * self._at.value
            shrinks = by_newton < READY * missing and missing - by_newton > allowed and unbalanced < 0.01
            if shrinks:
                h *= min(LEAST, max(MOST, float(np.sqrt(allowed / (missing - by_newton)))))
                self._set_duals(h, zone)
            self._set_zone(zone)
            if not self._step(h, whole=shrinks):
                return used
        return passes

    def _set_duals(self, h: float, zone: NDArray[np.bool_] | None = None) -> None:
        """zone: the rows whose loss shall be taken for quadratic, wherever they are."""
        duals = np.empty_like(self._duals)
        fill_duals(self._at.margins, self.costs, h, zone is not None, self._zone if zone is None else zone, duals)
        change = duals - self._duals
        changed, left = np.flatnonzero(change), np.flatnonzero(duals)
        if len(changed) >= len(left):  # from zero they are exact too
            self._sums[:] = 0.0
            change, changed = duals, left

        def add(numbers: Numbers, phi: NDArray[np.float32], places: Numbers) -> None:
            add_rows(phi, places, change[numbers], self.signs[numbers], self._sums)

        self.multiplications += len(changed) * self._features.size
        self._features.show(changed, add)
        self._duals = duals

    def _set_zone(self, zone: NDArray[np.bool_]) -> None:
        entering, leaving = np.flatnonzero(zone & ~self._zone), np.flatnonzero(self._zone & ~zone)
        if len(entering) + len(leaving) > np.count_nonzero(zone):
            self._curvature[:] = 0.0
            entering, leaving = np.flatnonzero(zone), leaving[:0]
        for numbers, sign in ((entering, 1.0), (leaving, -1.0)):

            def add(some: Numbers, phi: NDArray[np.float32], places: Numbers, sign: float = sign) -> None:
                scaled = phi[places][:, : self._features.size] * np.sqrt(self.costs[some])[:, None]
                self._curvature = dsyrk(sign, scaled.T, 1.0, self._curvature, lower=1, overwrite_c=1)

            self.multiplications += len(numbers) * self._features.size**2 // 2
            self._features.show(numbers, add)
        self._zone = zone

    def _gradient(self) -> NDArray[np.float64]:
        gradient: NDArray[np.float64] = self._at.pull - (self._sums[1] - self._sums[0])
        return gradient

    def _left_by_newton(self) -> float:
        """The part of the gap that would be there with a smoothed hinge too."""
        return 0.5 * self._squared_length(self._gradient())

    def _bound(self) -> tuple[float, float]:
        """The dual objective, and how far the classes are out of balance: with a bias, their a_i have equal sums."""
        if not self._features.bias:
            return _best_multiple(float(self._duals.sum()), self._squared_length(self._sums[1] - self._sums[0])), 0.0
        totals = self._sums[:, -1]
        least = max(float(totals.min()), 0.0)
        shares = np.divide(least, totals, out=np.ones(2), where=totals > least)  # of the heavier class: what balances
        length = self._squared_length(shares[1] * self._sums[1] - shares[0] * self._sums[0])
        return _best_multiple(2.0 * least, length), 1.0 - float(shares.min())

    def _squared_length(self, values: NDArray[np.float64]) -> float:
        """v' K^-1 v"""
        half = solve_triangular(self._factor, values[: self._vectors], lower=True, check_finite=False)
        return float(half @ half)

    def _step(self, h: float, *, whole: bool) -> bool:
        """In Newton's direction, all of the way, or to where the objective is least; False: it leads nowhere."""
        hessian = self._curvature / (2.0 * h)
        hessian += self._kernel
        direction = _solved(hessian, self._gradient(), self._usual)
        if direction is None:
            return False
        self.multiplications += len(direction) ** 3 // 6
        change = self.signs * self._products(direction)
        at, pull = self._at, self._kernel @ direction
        slopes = float(direction @ at.pull), float(direction @ pull)
        size = 1.0 if whole else step_size(at.margins, change, self.costs, h, *slopes)
        solution, margins = at.solution + size * direction, at.margins + size * change
        pull = at.pull + size * pull
        value = 0.5 * float(solution @ pull) + losses(margins, self.costs, 1.0)
        if not np.isfinite(value):
            return False
        self._at = _Point(solution, margins, pull, value)
        return size > 0.0


def kernel_matrix(model: BudgetedModel) -> NDArray[np.float64]:
    points = model.support_vectors.astype(np.float64)
    points -= points.mean(axis=0) if len(points) else 0.0
    norms = np.einsum("ij,ij->i", points, points)
    distances = np.maximum(norms[:, None] + norms - 2.0 * (points @ points.T), 0.0)
    matrix: NDArray[np.float64] = np.exp(-model.gamma * distances)
    np.fill_diagonal(matrix, 1.0 + RIDGE)
    return matrix


def _best_multiple(total: float, length: float) -> float:
    """The largest t total - t^2 / 2 length for t between 0 and 1: multiples of a feasible point are feasible."""
    return total - 0.5 * length if length <= total else 0.5 * total * (total / length)


def _solved(
    hessian: NDArray[np.float64], gradient: NDArray[np.float64], usual: NDArray[np.float64]
) -> NDArray[np.float64] | None:
    """-H^-1 g. The bias has no curvature of its own: where the zone is empty H gets a little of what is usual. None: it
    has no end."""
    places, more = np.diag_indices_from(hessian), 1e-14 * np.maximum(np.diag(hessian), usual)
    for _ in range(8):
        hessian[places] += more
        factor, failed = dpotrf(hessian, lower=1, clean=0)
        if not failed:
            return -np.asarray(dpotrs(factor, gradient, lower=1)[0])
        more *= 100.0
    return None
