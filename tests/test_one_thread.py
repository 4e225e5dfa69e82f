"""BLAS has one thread while anybody asks for it, and afterwards as many as before."""

from threading import Barrier, Thread

import pytest
from builders import blobs
from threadpoolctl import threadpool_info

from mmbsgd import MultiMergeSVC
from mmbsgd import one_thread as module
from mmbsgd.one_thread import OneThread
from mmbsgd.portions import Whole
from mmbsgd.rows import rows_of


class Blas:
    """A stand-in with three threads. Not all builds of OpenBLAS do what another thread than the first tells them."""

    threads = 3

    def limit(self, *, limits, user_api):
        assert user_api == "blas"
        return Limit(self, limits)


class Limit:
    def __init__(self, blas, limits):
        self.blas, self.before = blas, blas.threads
        blas.threads = limits

    def restore_original_limits(self):
        self.blas.threads = self.before


@pytest.fixture
def blas(monkeypatch):
    found = Blas()
    monkeypatch.setattr(module, "_libraries", lambda: found)
    return found


def at_once(*tasks):
    threads = [Thread(target=task) for task in tasks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def threads_of_blas():
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]


def test_the_real_one_has_one_thread_inside_and_as_many_as_before_outside():
    before, one_thread = threads_of_blas(), OneThread()
    with one_thread, one_thread:
        assert set(threads_of_blas()) == {1}
    assert threads_of_blas() == before


def test_an_error_leaves_it_as_it_was(blas):
    with pytest.raises(ZeroDivisionError), OneThread():
        0 / (blas.threads - 1)  # one, so that it is an error
    assert blas.threads == 3


def test_threads_that_overlap_leave_it_as_the_first_found_it(blas):
    one_thread, meet, seen = OneThread(), Barrier(2, timeout=60), []

    def first():
        with one_thread:
            meet.wait()  # the second may enter
            meet.wait()  # it has
        seen.append(blas.threads)
        meet.wait()  # it may leave

    def second():
        meet.wait()
        with one_thread:
            meet.wait()
            meet.wait()
        seen.append(blas.threads)

    at_once(first, second)
    assert seen == [1, 3]


@pytest.mark.compiled_only  # plain Python would warn of what kernels divide, in threads that pytest does not guard
def test_fits_in_parallel_leave_it_as_it_was(blas):
    """The first to polish ends before the second, which began while the first had set the number of threads."""
    matrix, labels = blobs(0, 40)
    meet, ended, seen = Barrier(2, timeout=60), Barrier(2, timeout=60), []

    def watch(trainer):
        if trainer.polish_passes == 1:
            seen.append(blas.threads)
            if meet.wait() == 0:
                ended.wait()

    def fit():
        MultiMergeSVC(budget=5, random_state=0, polish=2).fit_portions(Whole(rows_of(matrix), labels), watch=watch)
        seen.append(blas.threads)
        if len(seen) == 3:
            ended.wait()

    at_once(fit, fit)
    assert seen == [1, 1, 1, 3]
