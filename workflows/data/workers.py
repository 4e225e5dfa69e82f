"""Who does the work of preparing: threads of this process, or tasks on a Ray cluster.

Readers and writers are pyarrow and NumPy code that releases Python's lock, so that threads use all cores without the
start of a process. Between reading and writing, blocks wait in files (threads) or in Ray's object store (Ray).
"""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Protocol, TypeVar

from workflows.cluster import connect
from workflows.data.blocks import FileBlock, Kept, Summary
from workflows.data.places import speaking
from workflows.errors import DataError

Task = TypeVar("Task")
Result = TypeVar("Result")
Read = Callable[[Task], Iterator[tuple[Summary, Any]]]


class Workers(Protocol):
    def keep(self, read: Read[Task], tasks: Iterable[Task]) -> Iterator[list[tuple[Summary, Kept]]]:
        """Reads every task's blocks and keeps them aside; results come in the order of the tasks."""
        ...

    def run(self, work: Callable[[Task], Result], tasks: Iterable[Task]) -> Iterator[Result]:
        """Results in the order of the tasks; few are under way at a time, so that memory stays bounded."""
        ...


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Threads:
    def __init__(self, scratch: Path, workers: int | None = None) -> None:
        self.workers = workers or cores()
        self._scratch = scratch
        self._numbers = count()

    def keep(self, read: Read[Task], tasks: Iterable[Task]) -> Iterator[list[tuple[Summary, Kept]]]:
        def kept(task: Task) -> list[tuple[Summary, Kept]]:
            with speaking(f"cannot write to {self._scratch}"):
                return [
                    (summary, FileBlock.save(self._scratch / str(next(self._numbers)), matrix))
                    for summary, matrix in read(task)
                ]

        return self.run(kept, tasks)

    def run(self, work: Callable[[Task], Result], tasks: Iterable[Task]) -> Iterator[Result]:
        with ThreadPoolExecutor(self.workers) as pool:
            yield from _in_order(lambda task: pool.submit(work, task), tasks, self.workers + 1)


@dataclass(frozen=True)
class RayBlock:
    blocks: Any  # reference to a list of matrices
    position: int

    def load(self) -> Any:
        import ray

        return ray.get(self.blocks)[self.position]


class RayTasks:
    """Tasks on the cluster at this address ('auto', 'HOST:PORT', 'ray://…')."""

    def __init__(self, address: str) -> None:
        connect(address)
        import ray

        self.workers = max(int(ray.cluster_resources().get("CPU", 1)), 1)

    def keep(self, read: Read[Task], tasks: Iterable[Task]) -> Iterator[list[tuple[Summary, Kept]]]:
        import ray

        def kept(task: Task) -> tuple[list[Summary], list[Any]]:
            pairs = list(read(task))
            return [summary for summary, _ in pairs], [matrix for _, matrix in pairs]

        remote = ray.remote(num_returns=2)(kept)
        matrices: deque[Any] = deque()

        def submit(task: Task) -> "Future[list[Summary]]":
            summaries, blocks = remote.remote(task)
            matrices.append(blocks)
            return summaries.future()  # type: ignore[no-any-return]

        for summaries in self._results(submit, tasks):
            blocks = matrices.popleft()
            yield [(summary, RayBlock(blocks, position)) for position, summary in enumerate(summaries)]

    def run(self, work: Callable[[Task], Result], tasks: Iterable[Task]) -> Iterator[Result]:
        import ray

        def one(task: Task) -> Result:
            return work(task)

        remote = ray.remote(one)
        return self._results(lambda task: remote.remote(task).future(), tasks)

    def _results(self, submit: "Callable[[Task], Future[Result]]", tasks: Iterable[Task]) -> Iterator[Result]:
        import ray

        try:
            yield from _in_order(submit, tasks, 2 * self.workers)
        except ray.exceptions.RayTaskError as error:
            raise error.cause if isinstance(error.cause, DataError) else error from None
        except ray.exceptions.RayError as error:
            raise DataError(f"the Ray cluster failed: {' '.join(str(error).split())}; run the command again") from None


def _in_order(submit: "Callable[[Task], Future[Result]]", tasks: Iterable[Task], ahead: int) -> Iterator[Result]:
    waiting: deque[Future[Result]] = deque()
    try:
        for task in tasks:
            waiting.append(submit(task))
            if len(waiting) >= ahead:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        for future in waiting:
            with suppress(Exception):
                future.cancel()
