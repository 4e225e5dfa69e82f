"""What goes into Ray's object store for nodes that cannot see the data."""

import pytest
import ray
from prepared import prepared

from workflows.errors import StudyError
from workflows.workplace import Workplace


@pytest.fixture
def data(tmp_path):
    return prepared(tmp_path / "board", rows=2000)


@pytest.fixture
def copied(monkeypatch):
    """What is put into the object store."""
    found = []
    monkeypatch.setattr(ray, "put", found.append)
    return found


def cluster(monkeypatch, *nodes):
    """nodes: (CPUs, bytes of the object store)."""
    told = [
        {
            "Alive": True,
            "NodeManagerAddress": f"10.0.0.{number}",
            "Resources": {"CPU": cpus, "object_store_memory": store},
        }
        for number, (cpus, store) in enumerate(nodes, 1)
    ]
    monkeypatch.setattr(ray, "nodes", lambda: told)


def bytes_of(data, *splits):
    return sum(record.bytes for split in splits for record in data.manifest.splits[split])


def test_trials_get_what_they_read_and_no_more(data, copied, monkeypatch):
    read = bytes_of(data, "train", "validation")
    cluster(monkeypatch, (0.0, 1.0), (4.0, float(read)))  # no worker will be on the first
    shared = Workplace.of(data, ("train", "validation")).share()
    assert sum(part.nbytes for part in copied) == read
    assert set(shared.parts) == {record.file for record in data.manifest.partitions if record.split != "test"}


def test_what_the_smallest_node_cannot_hold_is_refused_before_anything_is_copied(data, copied, monkeypatch):
    read = bytes_of(data, "train", "validation")
    cluster(monkeypatch, (4.0, 1e9), (1.0, read - 1.0))
    with pytest.raises(StudyError, match=r"a copy does not fit.* node 10\.0\.0\.2 .*--object-store-memory"):
        Workplace.of(data, ("train", "validation")).share()
    assert not copied
