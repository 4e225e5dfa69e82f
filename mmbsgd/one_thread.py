"""BLAS with one thread while anybody asks for it: with one thread, time is processor time.

The number of threads is the whole process's: of several threads that ask, the first in changes it and the last out puts
back what was there.
"""

from contextlib import AbstractContextManager
from functools import cache
from threading import Lock
from typing import Any

from threadpoolctl import ThreadpoolController


class OneThread(AbstractContextManager["OneThread"]):
    def __init__(self) -> None:
        self._lock, self._inside = Lock(), 0
        self._limit: Any = None

    def __enter__(self) -> "OneThread":
        with self._lock:
            if self._inside == 0:
                self._limit = _libraries().limit(limits=1, user_api="blas")
            self._inside += 1
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                self._limit.restore_original_limits()


@cache
def _libraries() -> ThreadpoolController:
    """It looks at every library that is loaded, which takes a while."""
    return ThreadpoolController()


one_thread = OneThread()
