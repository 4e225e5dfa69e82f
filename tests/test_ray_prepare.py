"""Preparing as tasks of a Ray cluster: the same partitions as with threads, and errors as clear."""

import os
import subprocess
import sys

import numpy as np
import pytest
import ray
from prepared import (
    class_blocks,
    dense,
    entries,
    fingerprints,
    gathered,
    multiset,
    prepared,
    write_csv,
    write_libsvm,
    write_parquet,
)
from ray.cluster_utils import Cluster

from workflows.data.blocks import Summary
from workflows.data.workers import RayTasks
from workflows.errors import DataError

pytestmark = pytest.mark.xdist_group("ray")


@pytest.fixture(scope="module")
def cluster():
    """The address of a cluster of two nodes on this machine."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_AUTH_MODE", "disabled")
        made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
        try:
            made.add_node(num_cpus=1)
            yield made.address
        finally:
            ray.shutdown()
            made.shutdown()


def test_the_partitions_are_those_that_threads_write(cluster, tmp_path):
    matrix, labels = class_blocks(1, rows=200, width=8, density=0.3)
    sources = {
        "table": (write_parquet(tmp_path / "in.parquet", matrix, labels, row_group_size=25), {"scale": "standard"}),
        "text": (write_libsvm(tmp_path / "in.svm", matrix, labels), {"scale": "minmax", "folds": 3}),
        "demo": ("demo", {}),
    }
    for name, (source, options) in sources.items():
        options = {"rows_per_partition": 30, "seed": 5, **options}
        threads = prepared(tmp_path / f"{name}-threads", source, **options)
        tasks = prepared(tmp_path / f"{name}-ray", source, ray_address=cluster, **options)
        assert fingerprints(tasks.manifest) == fingerprints(threads.manifest)
        assert tasks.manifest.fingerprint == threads.manifest.fingerprint
        assert multiset(*gathered(tasks)) == multiset(*gathered(threads))


def test_all_processors_of_the_cluster_are_used(cluster):
    assert RayTasks(cluster).workers == 2


def test_results_come_in_the_order_of_the_tasks(cluster):
    assert list(RayTasks(cluster).run(lambda task: task * 2, iter(range(20)))) == [task * 2 for task in range(20)]


def test_the_work_is_done_in_other_processes(cluster):
    assert os.getpid() not in set(RayTasks(cluster).run(lambda task: os.getpid(), range(4)))


def test_kept_blocks_come_back_as_they_were(cluster):
    def read(task):
        for part in range(task % 3):
            yield Summary((("a", 2),), 3, task), np.full((2, 3), 10 * task + part, np.float32)

    kept = list(RayTasks(cluster).keep(read, range(7)))
    assert [len(blocks) for blocks in kept] == [task % 3 for task in range(7)]
    for task, blocks in enumerate(kept):
        for (summary, block), (expected, matrix) in zip(blocks, read(task), strict=True):
            assert summary == expected
            assert np.array_equal(dense(block.load()), matrix)


def test_a_mistake_found_by_a_task_arrives_as_it_is(cluster, tmp_path):
    write_csv(tmp_path / "in.csv", *class_blocks(2))
    lines = (tmp_path / "in.csv").read_text().splitlines()
    lines[40] = lines[40].replace(",", ",x", 1)
    (tmp_path / "in.csv").write_text("\n".join(lines))
    messages = []
    for options in ({}, {"ray_address": cluster}):
        with pytest.raises(DataError, match="line 41, column 'f1'") as refused:
            prepared(tmp_path / "out", tmp_path / "in.csv", **options)
        messages.append(str(refused.value))
    assert messages[0] == messages[1]
    assert entries(tmp_path) == ["in.csv"]


def test_a_worker_that_dies_is_a_message(cluster):
    with pytest.raises(DataError, match=r"the Ray cluster failed: .*run the command again") as failed:
        list(RayTasks(cluster).run(lambda task: os._exit(1), [1]))
    assert "\n" not in str(failed.value)


@pytest.mark.parametrize("address", [pytest.param("127.0.0.1:1"), "ray://127.0.0.1:1"])
def test_an_address_without_a_cluster_is_a_message_and_exit_code_2(tmp_path, address):
    done = subprocess.run(
        [
            *(sys.executable, "-m", "workflows.cli", "prepare", "demo", "--rows", "100"),
            *("--out", str(tmp_path / "out"), "--ray-address", address),
        ],
        capture_output=True,
        text=True,
        env=os.environ | {"RAY_AUTH_MODE": "disabled"},
        timeout=15,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    assert f"no Ray cluster at '{address}'" in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr
    assert entries(tmp_path) == []
