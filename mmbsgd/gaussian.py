"""Gaussian kernel values of one row against all support vectors, and the margin.

    k(x, s) = exp(-gamma * ||x - s||^2) = 2^(-scale * ||x - s||^2),   scale = gamma * log2(e)
    margin  = sum_j beta_j k(s_j, x)

Distances are ||x||^2 + ||s||^2 - 2<x, s>, one fused multiply-add per non-zero of x and support vector, or a sum of
squared differences once that form would lose digits (see `support.PRECISE_FROM`).
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mmbsgd._compile import kernel
from mmbsgd.lanes import LANES, Lanes, Scalar, Values, aligned, exp2, item, load, maximum, splat, store, total
from mmbsgd.rows import Rows, Span, span, squared_norm
from mmbsgd.support import BLOCKS, PRECISE, Support

LOG2_E = math.log2(math.e)


@kernel
def squared_distances(rows: Rows, row: Span, norm: Scalar, support: Support, out: NDArray[np.float32]) -> None:
    """out[j] = ||row - s_j||^2 for every slot j of the occupied blocks."""
    if support.state[PRECISE]:
        scatter(rows, row, support.dense_row)
        for block in range(support.state[BLOCKS]):
            store(out, block * LANES, _difference_block(support.dense_row, support.columns, block))
        return
    row_norm = splat(np.float32(norm))
    blocks = support.state[BLOCKS]
    for block in range(0, blocks - 1, 2):
        _two_product_blocks(rows, row, row_norm, support.columns, support.norms, block, out)
    if blocks % 2:
        block = blocks - 1
        store(out, block * LANES, _product_block(rows, row, row_norm, support.columns, support.norms, block))


@kernel
def _product_block(rows: Rows, row: Span, row_norm: Lanes, columns: Values, norms: Values, block: int) -> Lanes:
    """Squared distances of one row to one block."""
    first = block * rows.width
    products = splat(np.float32(0.0))
    for k in range(row.length):
        column = load(columns, (first + item(rows.features, row.feature + k)) * LANES)
        products = products + splat(item(rows.values, row.value + k)) * column
    return maximum(row_norm + load(norms, block * LANES) - products - products, splat(np.float32(0.0)))


@kernel
def _two_product_blocks(
    rows: Rows, row: Span, row_norm: Lanes, columns: Values, norms: Values, block: int, out: Values
) -> None:
    """Two blocks at once: enough independent sums to hide the latency of a fused multiply-add."""
    first, second = block * rows.width, (block + 1) * rows.width
    products = splat(np.float32(0.0))
    others = splat(np.float32(0.0))
    for k in range(row.length):
        feature, value = item(rows.features, row.feature + k), splat(item(rows.values, row.value + k))
        products = products + value * load(columns, (first + feature) * LANES)
        others = others + value * load(columns, (second + feature) * LANES)
    zero = splat(np.float32(0.0))
    start = block * LANES
    store(out, start, maximum(row_norm + load(norms, start) - products - products, zero))
    start += LANES
    store(out, start, maximum(row_norm + load(norms, start) - others - others, zero))


@kernel
def _difference_block(dense_row: Values, columns: Values, block: int) -> Lanes:
    """The same from a dense row, without cancellation."""
    width = dense_row.shape[0]
    first = block * width * LANES
    squares = splat(np.float32(0.0))
    for feature in range(width):
        difference = splat(dense_row[feature]) - load(columns, first + feature * LANES)
        squares = squares + difference * difference
    return squares


@kernel
def scatter(rows: Rows, row: Span, out: NDArray[np.float32]) -> None:
    """The row as d values."""
    for feature in range(out.shape[0]):
        out[feature] = np.float32(0.0)
    for k in range(row.length):
        out[rows.features[row.feature + k]] = rows.values[row.value + k]


@kernel
def margin(support: Support) -> np.float32:
    """sum_j beta_j k(s_j, x) for the row x whose distances were computed last."""
    scale = splat(np.float32(-support.gamma * LOG2_E))
    sums = splat(np.float32(0.0))
    for block in range(support.state[BLOCKS]):
        start = block * LANES
        sums = sums + load(support.beta, start) * exp2(load(support.distances, start) * scale)
    return total(sums)


ROWS_AT_ONCE = 32


class Tile(NamedTuple):
    """ROWS_AT_ONCE rows, padded to one length with zeros so that loops over them are alike, and their sums."""

    values: NDArray[np.float32]  # (longest, ROWS_AT_ONCE)
    places: NDArray[np.int64]  # (longest, ROWS_AT_ONCE) feature * LANES
    norms: NDArray[np.float32]  # (ROWS_AT_ONCE,)
    distances: NDArray[np.float32]  # (ROWS_AT_ONCE * LANES,)
    sums: NDArray[np.float32]  # (ROWS_AT_ONCE * LANES,)
    dense_row: NDArray[np.float32]  # (d,) scratch: the support's own is not for threads that share it


def tile_for(rows: Rows) -> Tile:
    longest = int(np.diff(rows.starts).max(initial=0)) if rows.starts.size else rows.width
    shape, lanes = (longest, ROWS_AT_ONCE), ROWS_AT_ONCE * LANES
    return Tile(
        values=np.zeros(shape, np.float32),
        places=np.zeros(shape, np.int64),
        norms=aligned(ROWS_AT_ONCE),
        distances=aligned(lanes),
        sums=aligned(lanes),
        dense_row=np.zeros(rows.width, np.float32),
    )


@kernel
def margins(rows: Rows, first: int, support: Support, tile: Tile, out: NDArray[np.float32]) -> None:
    """out[i] = the margin of row first + i. A block of support vectors stays in the nearest cache for many rows."""
    scale, zero = splat(np.float32(-support.gamma * LOG2_E)), splat(np.float32(0.0))
    for start in range(0, out.shape[0], ROWS_AT_ONCE):
        count = min(ROWS_AT_ONCE, out.shape[0] - start)
        for i in range(count):
            store(tile.sums, i * LANES, zero)
        length = 0 if support.state[PRECISE] else _fill(tile, rows, first + start, count)
        for block in range(support.state[BLOCKS]):
            if support.state[PRECISE]:
                _add_block_precisely(rows, first + start, count, support, block, scale, tile)
            else:
                _add_block(tile, length, count, support, block, scale)
        for i in range(count):
            out[start + i] = total(load(tile.sums, i * LANES))


@kernel
def _fill(tile: Tile, rows: Rows, first: int, count: int) -> int:
    """Copies rows into the tile; the length of the longest."""
    length = 0
    for i in range(count):
        length = max(length, span(rows, first + i).length)
    for i in range(count):
        row = span(rows, first + i)
        tile.norms[i] = squared_norm(rows, row)
        for k in range(row.length):
            tile.values[k, i] = item(rows.values, row.value + k)
            tile.places[k, i] = item(rows.features, row.feature + k) * LANES
        for k in range(row.length, length):
            tile.values[k, i] = np.float32(0.0)
            tile.places[k, i] = 0
    return length


@kernel
def _add_block(tile: Tile, length: int, count: int, support: Support, block: int, scale: Lanes) -> None:
    """sums[i] += beta_j k(s_j, x_i) for the lanes j of one block.

    First all distances, two rows at a time to hide latencies, then all exponentials: each loop has registers enough.
    """
    values, places, columns = tile.values.reshape(-1), tile.places.reshape(-1), support.columns
    first = block * support.points.shape[1] * LANES
    own_norms, zero = load(support.norms, block * LANES), splat(np.float32(0.0))
    for i in range(0, count, 2):
        products = zero
        others = zero
        for k in range(length):
            place = k * ROWS_AT_ONCE + i
            column = load(columns, first + item(places, place))
            products = products + splat(item(values, place)) * column
            column = load(columns, first + item(places, place + 1))
            others = others + splat(item(values, place + 1)) * column
        distances = splat(item(tile.norms, i)) + own_norms - products - products
        store(tile.distances, i * LANES, maximum(distances, zero))
        distances = splat(item(tile.norms, i + 1)) + own_norms - others - others
        store(tile.distances, (i + 1) * LANES, maximum(distances, zero))
    beta = load(support.beta, block * LANES)
    for i in range(count):
        kernels = exp2(load(tile.distances, i * LANES) * scale)
        store(tile.sums, i * LANES, load(tile.sums, i * LANES) + beta * kernels)


@kernel
def _add_block_precisely(
    rows: Rows, first: int, count: int, support: Support, block: int, scale: Lanes, tile: Tile
) -> None:
    beta = load(support.beta, block * LANES)
    for i in range(count):
        scatter(rows, span(rows, first + i), tile.dense_row)
        distances = _difference_block(tile.dense_row, support.columns, block)
        store(tile.sums, i * LANES, load(tile.sums, i * LANES) + beta * exp2(distances * scale))
