"""The journal: what was flushed survives, a cut-off end is mended, one driver writes, and Optuna can read it."""

import errno
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import optuna
import pytest
from optuna.storages.journal import JournalFileBackend, JournalStorage
from studies import counts, driver_of, ends, ledger_in, trade_off

from workflows.backends.simulated import Simulated
from workflows.errors import StudyError
from workflows.study.driver import Limits
from workflows.study.journal import Journal

TESTS = Path(__file__).parent
SECONDS = 60


def log(number, **more):
    return {"op_code": 2, "number": number, "text": 'γ\n\r\u2028\x00 "quoted"', **more}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "studies" / "some.journal"


def written(path, count):
    with Journal(path) as journal:
        journal.append_logs([log(number) for number in range(count)])
    return path.read_bytes()


def numbers(path, **options):
    journal = Journal(path, **options)
    found = [one["number"] for one in journal.read_logs(0)]
    journal.close()
    return found


def python(code, path, **options):
    """A process that runs this code, with the journal's path as its argument."""
    command = [sys.executable, "-c", code, str(path)]
    return subprocess.Popen(
        command, cwd=TESTS, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options
    )


def test_what_was_appended_is_read_back_exactly(path):
    with Journal(path) as journal:
        journal.append_logs([log(0, value=0.1), log(1, value=float("inf"))])
        assert list(journal.read_logs(0)) == [log(0, value=0.1), log(1, value=float("inf"))]
        assert list(journal.read_logs(1)) == [log(1, value=float("inf"))]
        journal.append_logs([log(2)])
    with Journal(path) as journal:
        assert list(journal.read_logs(0)) == [log(0, value=0.1), log(1, value=float("inf")), log(2)]
        assert list(journal.read_logs(3)) == []


def test_nothing_is_written_before_it_is_flushed(path):
    journal = Journal(path)
    journal.append_logs([log(0)])
    assert numbers(path, write=False) == []
    journal.flush()
    assert numbers(path, write=False) == [0]
    journal.close()
    journal.close()


def test_what_is_kept_in_memory_is_what_a_reader_of_the_file_gets(path):
    """Tuples become lists and keys become words, whether or not the file has been read again."""
    with Journal(path) as journal:
        journal.append_logs([log(0, values=(1, 2), by={3: "three"})])
        kept = list(journal.read_logs(0))
    with Journal(path) as journal:
        assert list(journal.read_logs(0)) == kept


def test_an_end_cut_off_at_any_byte_is_mended(path):
    """The others are kept, the file can be written again, and it is whole afterwards."""
    content = written(path, 3)
    begin = content[:-1].rfind(b"\n") + 1
    assert len(content) - begin > 50
    for cut in range(begin, len(content)):
        path.write_bytes(content[:cut])
        assert numbers(path, write=False) == [0, 1]
        assert path.read_bytes() == content[:cut], "who only looks changes nothing"
        with Journal(path) as journal:
            assert len(list(journal.read_logs(0))) == 2
            journal.append_logs([log(7)])
        assert numbers(path, write=False) == [0, 1, 7]
        assert path.read_bytes().startswith(content[:begin])


def test_a_first_record_that_was_cut_off_leaves_an_empty_journal(path):
    content = written(path, 1)
    for cut in (0, 1, len(content) - 1):
        path.write_bytes(content[:cut])
        assert numbers(path) == []
        assert path.read_bytes() == b""


DAMAGE = {
    "garbage": b"}{",
    "an empty line": b"",
    "zeros, as a crashed file system leaves them": b"\x00" * 40,
    "no text": b"\xff\xfe\xfd",
    "another kind of JSON": b"[1, 2]",
    "a number": b"17",
    "no operation": b'{"a": 1}',
    "two records in one line": b'{"op_code":2}{"op_code":2}',
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
@pytest.mark.parametrize("tail", [b"", b'{"op_code": 2'])
def test_damage_in_the_middle_is_refused_by_name_and_line_and_left_as_it_is(path, damage, tail):
    lines = written(path, 3).splitlines()
    content = b"\n".join([lines[0], damage, lines[2]]) + b"\n" + tail
    path.write_bytes(content)
    for write in (True, False):
        with pytest.raises(StudyError, match=r"some\.journal is damaged in line 2; move it away") as refused:
            Journal(path, write=write)
        assert "\n" not in str(refused.value)
    assert path.read_bytes() == content
    path.unlink()
    assert numbers(path) == [], "nobody holds it"


def test_a_second_driver_is_refused_until_the_first_one_ends(path):
    first = Journal(path)
    for _ in range(2):
        with pytest.raises(StudyError, match=r"another driver is running the study in .*some\.journal"):
            Journal(path)
    first.append_logs([log(0)])
    first.close()
    assert numbers(path) == [0]


def test_a_driver_that_is_killed_leaves_what_it_flushed_and_no_lock(path):
    code = """if True:
        import sys
        from pathlib import Path
        from workflows.study.journal import Journal

        journal = Journal(Path(sys.argv[1]))
        journal.append_logs([{"op_code": 2, "number": 0}])
        journal.flush()
        journal.append_logs([{"op_code": 2, "number": 1}])
        print("ready", flush=True)
        sys.stdin.read()
    """
    with python(code, path) as other:
        try:
            assert other.stdout.readline() == "ready\n"
            with pytest.raises(StudyError, match="another driver"):
                Journal(path)
            assert numbers(path, write=False) == [0], "looking is allowed"
        finally:
            other.send_signal(signal.SIGKILL)
            other.communicate(timeout=SECONDS)
    assert numbers(path) == [0]


def test_a_full_disk_ends_the_study_with_advice_and_it_goes_on_when_there_is_room(path):
    """The size of files is limited in a process of its own: writes fail in the middle of a line."""
    code = """if True:
        import resource, sys
        from pathlib import Path
        from studies import driver_of, ledger_in, trade_off
        from workflows.backends.simulated import Simulated
        from workflows.errors import StudyError
        from workflows.study.driver import Limits

        path = Path(sys.argv[1])
        hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        for limit in (20_000, 20_001, 20_490, 30_000):
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
            try:
                with ledger_in(path) as ledger:
                    driver_of(ledger, Simulated(trade_off, 3), limits=Limits(trials=100)).run()
            except StudyError as error:
                print(error, flush=True)
            assert path.stat().st_size <= limit
            assert path.read_bytes().endswith(b"\\n")
    """
    with python(code, path) as other:
        said, complaint = other.communicate(timeout=SECONDS)
    assert other.returncode == 0, complaint
    assert said.count("\n") == 4
    for line in said.splitlines():
        assert f"cannot write the study's journal {path}: File too large; make room and run the same command" in line
    with ledger_in(path) as ledger:
        before = len(ledger.trials())
        assert 10 < before < 100
        progress = driver_of(ledger, Simulated(trade_off, 3), limits=Limits(trials=100)).run()
        assert progress.done == 100
        assert len(set(ends(ledger))) == 100
    with ledger_in(path) as ledger:
        assert counts(driver_of(ledger, Simulated(trade_off)).progress) == (100, 0, 0)


class Disk:
    """Stands for the journal's file: fails as it is told to."""

    def __init__(self, file, writes, *, truncates=True):
        self._file, self._writes, self._truncates = file, list(writes), truncates

    def write(self, data):
        room = self._writes.pop(0) if self._writes else len(data)
        if room == 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        return self._file.write(data[:room])

    def truncate(self, size):
        if not self._truncates:
            raise OSError(errno.EIO, "Input/output error")
        return self._file.truncate(size)

    def __getattr__(self, name):
        return getattr(self._file, name)


@pytest.mark.parametrize("truncates", [True, False])
def test_a_write_that_failed_half_way_is_made_good_by_the_next(path, truncates):
    written(path, 1)
    journal = Journal(path)
    disk = journal._file = Disk(journal._file, [17, 3, 0], truncates=truncates)
    journal.append_logs([log(1), log(2)])
    with pytest.raises(StudyError, match="No space left on device"):
        journal.flush()
    disk._truncates = True
    journal.append_logs([log(3)])
    journal.close()
    assert numbers(path) == [0, 1, 2, 3]


def test_many_short_writes_make_a_whole_record(path):
    journal = Journal(path)
    journal._file = Disk(journal._file, [1] * 30)
    journal.append_logs([log(0)])
    journal.close()
    assert numbers(path) == [0]


def test_a_disk_that_cannot_keep_what_was_written_is_told_as_such(path, monkeypatch):
    journal = Journal(path)
    journal.append_logs([log(0)])

    def fail(descriptor):
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        with pytest.raises(StudyError, match="Input/output error"):
            journal.flush()
        with pytest.raises(StudyError, match="Input/output error"):
            journal.close()
    assert numbers(path) in ([], [0])


def test_a_place_that_cannot_be_written_is_refused_by_name(tmp_path):
    (tmp_path / "studies").write_text("a file where a folder should be")
    with pytest.raises(StudyError, match=r"cannot open the study's journal .*some\.journal"):
        Journal(tmp_path / "studies" / "some.journal")
    with pytest.raises(StudyError, match="cannot open the study's journal"):
        Journal(tmp_path / "none.journal", write=False)


def test_a_reader_may_look_at_any_time(path):
    """A writer flushes record after record; whoever looks sees a beginning of them, and never less than before."""
    journal, count = Journal(path), 300

    def write():
        for number in range(count):
            journal.append_logs([log(number, padding="x" * 2000)])
            journal.flush()

    writer = threading.Thread(target=write)
    writer.start()
    seen = 0
    while writer.is_alive():
        found = numbers(path, write=False)
        assert found == list(range(len(found)))
        assert len(found) >= seen
        seen = len(found)
    writer.join()
    assert numbers(path, write=False) == list(range(count))
    journal.close()


def test_a_reader_that_meets_half_a_record_ignores_it(path):
    content = written(path, 2)
    half = len(content) - 20
    path.write_bytes(content[:half])
    assert numbers(path, write=False) == [0]


def test_optuna_reads_the_file_with_its_own_backend(path):
    with ledger_in(path) as ledger:
        driver_of(ledger, Simulated(trade_off, 3)).run()
        mine = {trial.number: (trial.values, trial.params, trial.state) for trial in ledger.trials()}
    storage = JournalStorage(JournalFileBackend(str(path)))
    study = optuna.load_study(study_name="study", storage=storage)
    assert {trial.number: (trial.values, trial.params, trial.state) for trial in study.trials} == mine
    assert len(mine) == 20
    assert study.best_trials
    assert all(json.loads(line) for line in path.read_text().splitlines())


def test_what_optuna_wrote_is_read(path):
    path.parent.mkdir()
    storage = JournalStorage(JournalFileBackend(str(path)))
    study = optuna.create_study(study_name="study", storage=storage, directions=["maximize", "minimize"])
    study.add_trial(optuna.create_trial(values=[0.5, 1.0]))
    with Journal(path) as journal:
        found = optuna.load_study(study_name="study", storage=JournalStorage(journal))
        assert [trial.values for trial in found.trials] == [[0.5, 1.0]]


def test_limits_of_a_study_hold_for_what_is_in_the_journal(path):
    with ledger_in(path) as ledger:
        assert driver_of(ledger, Simulated(trade_off, 2), limits=Limits(trials=7)).run().done == 7
    with ledger_in(path) as ledger:
        assert driver_of(ledger, Simulated(trade_off, 2), limits=Limits(trials=7)).run().done == 7
        assert len(ledger.trials()) == 7
