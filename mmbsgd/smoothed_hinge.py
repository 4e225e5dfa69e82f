"""The hinge with its corner rounded, and sums of it over all rows.

    z_i         1 - m_i, with the margin m_i = y_i f(x_i)
    loss_h(z)   0 below -h,  (z + h)^2 / (4 h) in the zone |z| < h,  z above h

Margins, costs and changes of margins are arrays over rows.
"""

import numpy as np
from numpy.typing import NDArray

from mmbsgd._compile import kernel, summing_kernel


@summing_kernel
def losses(margins: NDArray[np.float64], costs: NDArray[np.float64], size: float) -> float:
    """Of the margins times size."""
    total = 0.0
    for i in range(margins.shape[0]):
        total += costs[i] * max(0.0, 1.0 - size * margins[i])
    return total


@kernel
def fill_duals(
    margins: NDArray[np.float64],
    costs: NDArray[np.float64],
    h: float,
    given: bool,
    zone: NDArray[np.bool_],
    out: NDArray[np.float64],
) -> None:
    """out[i] = c_i loss_h'(z_i). zone, if given: the rows whose loss shall be taken for quadratic."""
    for i in range(margins.shape[0]):
        z = 1.0 - margins[i]
        inside = zone[i] if given else abs(z) < h
        out[i] = costs[i] * ((z + h) / (2.0 * h) if inside else 1.0 if z > 0.0 else 0.0)


@summing_kernel
def slope(
    margins: NDArray[np.float64], change: NDArray[np.float64], costs: NDArray[np.float64], h: float, size: float
) -> float:
    """Of the smoothed losses, at margins + size * change."""
    total = 0.0
    for i in range(margins.shape[0]):
        z = 1.0 - margins[i] - size * change[i]
        total -= costs[i] * change[i] * min(1.0, max(0.0, (z + h) / (2.0 * h)))
    return total


@kernel
def step_size(
    margins: NDArray[np.float64],
    change: NDArray[np.float64],
    costs: NDArray[np.float64],
    h: float,
    linear: float,
    quadratic: float,
) -> float:
    """Where between 0 and 1 the smoothed objective is least, to a hundredth; 0 where it falls nowhere. Where heavy rows
    are a wall it may be a little behind that: the next step then knows of it."""
    if linear + quadratic + slope(margins, change, costs, h, 1.0) <= 0.0:
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        if linear + middle * quadratic + slope(margins, change, costs, h, middle) > 0.0:
            high = middle
        else:
            low = middle
        if high - low <= 0.02 * high:
            break
    return 0.5 * (low + high) if low > 0.0 else 0.0
