"""Data of a study on the nodes of a cluster: each reads it once, however many workers it has, and a set that is larger
than Ray's object store is used where it lies or refused with a reason."""

import os
import subprocess
import sys
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from networks import RAY_PORT, SECONDS_TO_START, a_network
from prepared import class_blocks, prepared, write_parquet
from ray_clusters import until

from workflows.backends.ray_actors import RayActors
from workflows.data import PreparedData
from workflows.records import TrialSpec
from workflows.workplace import Workplace

pytestmark = [pytest.mark.xdist_group("data-on-nodes"), pytest.mark.compiled_only, pytest.mark.long]

STORE = 80_000_000
"""Bytes of a node's object store: Ray takes no less."""
WORKER = b"ray::Worker"
PARAMETERS = {"C": 1.0, "gamma": 0.001, "budget": 10, "mergees": 2, "epochs": 1}
DRIVER = """
import sys
from workflows.cluster import connect
connect(sys.argv[1])
from test_data_on_nodes import a_trial_each, read_from_disk, workers_on
with workers_on(sys.argv[2], int(sys.argv[3])) as backend:
    before = read_from_disk()
    a_trial_each(backend)
    print(read_from_disk() - before)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("data")


@pytest.fixture(scope="module")
def large(folder):
    """More than an object store holds."""
    made = made_of(folder / "large", 32_000)
    assert size_of(made) > 1.1 * STORE
    return made


@pytest.fixture(scope="module")
def small(folder):
    return made_of(folder / "small", 8_000)


def made_of(folder, rows):
    folder.mkdir()
    source = write_parquet(folder / "table.parquet", *class_blocks(0, rows=rows, width=1000))
    made = prepared(folder / "prepared", source, label="label")
    os.sync()
    return made


def size_of(data):
    """Bytes that a trial reads."""
    return sum(record.bytes for record in data.manifest.partitions if record.split in ("train", "validation"))


@contextmanager
def workers_on(folder, count):
    """Workers that are ready for trials on this data."""
    backend = RayActors(Workplace.of(PreparedData.open(folder), ("train", "validation")), workers=count)
    try:
        until(lambda: backend.wait(0.1) or backend.slots() == count, SECONDS_TO_START, "workers")
        yield backend
    finally:
        backend.close()


def a_trial_each(backend):
    """As many trials as there are workers, all at the same time."""
    count, results = backend.slots(), []
    for number in range(count):
        backend.submit(TrialSpec(number, PARAMETERS, seed=number))
    until(lambda: results.extend(backend.wait(0.1)) or len(results) == count, SECONDS_TO_START, "results")
    assert all(result.state == "complete" for result in results), results
    assert len({result.node for result in results}) == count


def about(size):
    """This and what else arrives or is read in the meantime, which is far from a second copy."""
    return pytest.approx(1.1 * size, rel=0.1)


def read_from_disk():
    """Bytes that came from the disk for the workers of this host."""
    here, total = os.readlink("/proc/self/ns/net"), 0
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if (folder / "cmdline").read_bytes().startswith(WORKER) and os.readlink(folder / "ns/net") == here:
                counts = dict(line.split(": ") for line in (folder / "io").read_text().splitlines())
                total += int(counts["read_bytes"])
    return total


@pytest.fixture(scope="module")
def network():
    with a_network() as made:
        yield made


def driven(network, head, data, workers):
    """Runs a trial on each of so many workers of a cluster; bytes that these read from the disk meanwhile."""
    words = (sys.executable, "-c", DRIVER, f"{head}:{RAY_PORT}", data.folder.path, workers)
    driver = network.start(head, *words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    said, complained = driver.communicate(timeout=SECONDS_TO_START)
    assert driver.returncode == 0, complained
    return int(said)


# The folder is shared.


@pytest.fixture(scope="module")
def near(network):
    """A host that sees the folder."""
    address = network.host()
    network.join(address, address, cpus=2, store=STORE)
    return address


@pytest.mark.parametrize("workers", [1, 2])
def test_a_node_reads_a_shared_folder_once_even_if_its_object_store_is_too_small(network, near, large, workers):
    until(lambda: not any(WORKER.decode() in line for line in network.running(near)), SECONDS_TO_START, "a free host")
    forget(Path(large.folder.path))
    read = driven(network, near, large, workers)
    print(f"{workers} workers read {read / size_of(large):.3f} of the data from the disk")
    assert read == about(size_of(large))


def forget(folder):
    """Drops the files from the machine's memory; those that somebody has mapped would stay."""
    for path in folder.iterdir():
        with open(path) as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


# The folder is out of sight.


@pytest.fixture(scope="module")
def apart(network, folder):
    """A head where the folder is, and a host that does not see it and has all the CPUs."""
    head, far = network.host(), network.host(hidden=folder)
    network.join(head, head, cpus=0, store=STORE)
    network.join(far, head, cpus=2, store=STORE)
    return head, far


@pytest.mark.parametrize("workers", [1, 2])
def test_data_travels_once_to_a_node_that_cannot_see_it(network, apart, small, workers):
    head, far = apart
    before = network.received(far)
    driven(network, head, small, workers)
    received = network.received(far) - before
    print(f"{workers} workers received {received / size_of(small):.3f} of the data")
    assert received == about(size_of(small))


def test_data_that_does_not_fit_is_refused_before_anything_is_copied(network, apart, large, tmp_path):
    head, far = apart
    before = network.received(far)
    words = ("tune", large.folder.path, "--no-tracking", "--ray-address", f"{head}:{RAY_PORT}", "--home", tmp_path)
    command = network.mmbsgd(head, *words, cwd=tmp_path)
    said, complained = command.communicate(timeout=SECONDS_TO_START)
    assert command.returncode == 2, said
    for words in (
        f"not every node can see {large.folder.path}, and a copy does not fit: trials read 102 MB of it",
        f"the object store of node {far} holds 80 MB",
        "put the prepared folder where every node sees it under the same path",
        "or start Ray with a larger --object-store-memory",
    ):
        assert words in " ".join(complained.split())
    assert "Traceback" not in complained
    assert network.received(far) - before < size_of(large) / 20
