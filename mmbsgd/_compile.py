"""How every kernel of this package is compiled: two decorators, two sets of flags.

`contract` fuses a multiplication with the addition that follows. `reassoc`, which lets a plain loop's sum run in
vector registers, is for `summing_kernel` alone: it would also undo the rounding trick in `lanes.exp2`. `nnan` and
`ninf` are absent on purpose: kernels compare against infinities. Division by zero gives an infinity, as in NumPy, so
that no loop carries an exception edge, which would keep LLVM from vectorising it.

Kernels are compiled without Numba's memory runtime: one that allocates does not compile, and passing a tuple of
arrays to another kernel counts no references (with them, calls took longer than the work they called for).
"""

import hashlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar, cast

from numba import njit
from numba.core.caching import FunctionCache, IndexDataCacheFile
from numba.core.dispatcher import Dispatcher

from mmbsgd import _lowering as _lowering  # kernels may use lanes

Kernel = TypeVar("Kernel", bound=Callable[..., object])

IN_ORDER = {"contract"}
ANY_ORDER = {"contract", "reassoc", "nsz"}


def _fingerprint_of_sources() -> str:
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


_SOURCES = _fingerprint_of_sources()


class _PackageCache(FunctionCache):
    """Machine code on disk that is thrown away when any module of the package changes.

    Numba's own cache looks at a function's module alone, but a kernel contains the kernels it calls: after an edit
    elsewhere it would go on running the old ones, with other array layouts than the rest of the package.
    """

    def __init__(self, function: Callable[..., object]) -> None:
        super().__init__(function)
        self._cache_file = IndexDataCacheFile(
            cache_path=self._cache_path, filename_base=self._impl.filename_base, source_stamp=_SOURCES
        )

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            return super().load_overload(sig, target_context)
        except Exception:  # a damaged file fails to unpickle in any way it likes: compile anew
            with suppress(OSError):
                self.flush()
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        with suppress(OSError):  # a full disk costs the next process its time, not this one its training
            super().save_overload(sig, data)


def _compiled(function: Kernel, **options: Any) -> Kernel:
    dispatcher = njit(function, error_model="numpy", nogil=True, **options)
    if isinstance(dispatcher, Dispatcher):
        with suppress(RuntimeError):  # no folder to write to: compile in every process
            dispatcher._cache = _PackageCache(function)  # type: ignore[attr-defined]
    return cast(Kernel, dispatcher)


def kernel(function: Kernel) -> Kernel:
    """Compiles a free function over arrays and scalars, and keeps the machine code on disk."""
    return _compiled(function, fastmath=IN_ORDER, _nrt=False)


def summing_kernel(function: Kernel) -> Kernel:
    """The same for sums that may be taken in any order."""
    return _compiled(function, fastmath=ANY_ORDER, _nrt=False)
