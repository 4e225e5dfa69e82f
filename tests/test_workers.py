"""Workers: results in order, few under way at a time, and errors that stop the work."""

import collections
import threading

import numpy as np
import pytest
from prepared import dense
from scipy.sparse import csr_array

from workflows.data.blocks import Summary
from workflows.data.workers import Threads, cores
from workflows.errors import DataError

SECONDS = 30


@pytest.fixture(params=[1, 2, 5])
def threads(request, tmp_path):
    return Threads(tmp_path, request.param)


def test_results_come_in_the_order_of_the_tasks(threads):
    """Later tasks of a batch end first: each waits for its successor."""
    ended = [threading.Event() for _ in range(21)]
    ended[20].set()

    def work(task):
        if (task + 1) % threads.workers:
            assert ended[task + 1].wait(SECONDS)
        ended[task].set()
        return task

    assert list(threads.run(work, range(20 - 20 % threads.workers))) == list(range(20 - 20 % threads.workers))


def test_all_workers_work_at_the_same_time(threads):
    together = threading.Barrier(threads.workers)
    assert len(list(threads.run(lambda task: together.wait(SECONDS), range(threads.workers)))) == threads.workers


def test_tasks_are_made_only_as_they_are_needed(threads):
    made = []

    def tasks():
        for number in range(100):
            made.append(number)
            yield number

    for taken, result in enumerate(threads.run(lambda task: task, tasks())):
        assert result == taken
        assert len(made) - taken <= threads.workers + 1


def test_the_first_error_stops_the_work(threads):
    done = []

    def work(task):
        if task == 3:
            raise DataError("task 3 is wrong")
        done.append(task)
        return task

    results = []
    with pytest.raises(DataError, match="task 3 is wrong"):
        collections.deque(map(results.append, threads.run(work, iter(range(1000)))), maxlen=0)
    assert results == [0, 1, 2]
    assert len(done) <= 3 + 2 * threads.workers + 1


def test_an_error_while_tasks_are_made_comes_through(threads):
    def tasks():
        yield 1
        raise DataError("the source is wrong")

    with pytest.raises(DataError, match="the source is wrong"):
        list(threads.run(lambda task: task, tasks()))


def test_whoever_stops_taking_results_leaves_no_thread(threads):
    before = threading.active_count()
    results = threads.run(lambda task: task, iter(range(1000)))
    next(results)
    results.close()
    assert threading.active_count() == before


def test_kept_blocks_come_back_as_they_were(threads):
    def read(task):
        generator = np.random.default_rng(task)
        for part in range(task % 3):
            matrix = generator.normal(size=(4 + part, 3)).astype(np.float32)
            yield Summary((("a", 4 + part),), 3, task), csr_array(matrix) if task % 2 else matrix

    kept = list(threads.keep(read, range(12)))
    assert [len(blocks) for blocks in kept] == [task % 3 for task in range(12)]
    for task, blocks in enumerate(kept):
        for (summary, block), (expected, matrix) in zip(blocks, read(task), strict=True):
            assert summary == expected
            assert dense(block.load()).tobytes() == dense(matrix).tobytes()


def test_a_folder_that_cannot_be_written_to_is_a_message(tmp_path):
    threads = Threads(tmp_path / "gone", 2)
    with pytest.raises(DataError, match=r"cannot write to .*gone: No such file or directory"):
        list(threads.keep(lambda task: iter([(Summary((), 1, 0), np.zeros((1, 1)))]), range(3)))


def test_there_are_as_many_workers_as_cores_unless_said(tmp_path):
    assert Threads(tmp_path).workers == cores() >= 1
    assert Threads(tmp_path, 3).workers == 3
