"""How every kernel of this package is compiled: two decorators, two sets of flags.

`contract` fuses a multiplication with the addition that follows. `reassoc`, which lets a plain loop's sum run in
vector registers, is for `summing_kernel` alone: it would also undo the rounding trick in `lanes.exp2`. `nnan` and
`ninf` are absent on purpose: kernels compare against infinities. Division by zero gives an infinity, as in NumPy, so
that no loop carries an exception edge, which would keep LLVM from vectorising it.

Kernels are compiled without Numba's memory runtime: one that allocates does not compile, and passing a tuple of
arrays to another kernel counts no references (with them, calls took longer than the work they called for).
"""

from collections.abc import Callable
from typing import TypeVar, cast

from numba import njit

Kernel = TypeVar("Kernel", bound=Callable[..., object])

IN_ORDER = {"contract"}
ANY_ORDER = {"contract", "reassoc", "nsz"}


def kernel(function: Kernel) -> Kernel:
    """Compiles a free function over arrays and scalars, and caches the machine code on disk."""
    return cast(Kernel, njit(function, cache=True, error_model="numpy", fastmath=IN_ORDER, _nrt=False))


def summing_kernel(function: Kernel) -> Kernel:
    """The same for sums that may be taken in any order."""
    return cast(Kernel, njit(function, cache=True, error_model="numpy", fastmath=ANY_ORDER, _nrt=False))


def allocating_kernel(function: Kernel) -> Kernel:
    """For the rare call into linear algebra that needs memory of its own."""
    return cast(Kernel, njit(function, cache=True, error_model="numpy", fastmath=IN_ORDER, _nrt=True))
