"""The paper's data sets by name: where their files come from, and how the paper uses them.

Files are taken from the folder that MMBSGD_DATA names, else downloaded once from the LIBSVM collection.
"""

import http.client
import os
import secrets
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from workflows.data.places import speaking
from workflows.data.prepare import Progress
from workflows.data.request import Request
from workflows.errors import DataError

COLLECTION = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary"
"""C.-C. Chang and C.-J. Lin, LIBSVM Data: Classification (Binary Class)."""
FOLDER_VARIABLE = "MMBSGD_DATA"
_SUFFIXES = ("", ".bz2", ".xz", ".gz")
_SECONDS_OF_SILENCE = 30


@dataclass(frozen=True)
class KnownSet:
    name: str
    train: str
    """The file's name without .bz2 and the like."""
    test: str | None
    test_rows: int
    """Rows to hold out where there is no test file; the paper does not publish which ones it took."""
    rows: int
    """Training rows, those for validation included."""
    width: int
    c: float
    gamma: float
    remote: tuple[str, ...]
    """Names in the collection, those of training and test file."""
    note: str = ""
    support_vectors: int = 0
    """Of the exact model with this C and gamma, by LIBSVM on all training rows (SKIN: on its different ones)."""


KNOWN = {
    known.name: known
    for known in (
        KnownSet("adult", "a9a", "a9a.t", 16_281, 32_561, 123, 32, 0.008, ("a9a", "a9a.t"), support_vectors=11_383),
        KnownSet(
            "ijcnn",
            "ijcnn1",
            "ijcnn1.t",
            91_701,
            49_990,
            22,
            32,
            2,
            ("ijcnn1.bz2", "ijcnn1.t.bz2"),
            support_vectors=2_477,
        ),
        KnownSet(
            "web",
            "w7a",
            "w7a.t",
            25_057,
            24_692,
            300,
            8,
            0.03,
            ("w7a", "w7a.t"),
            "the paper took the smaller w6a",
            support_vectors=1_700,
        ),
        KnownSet("phishing", "phishing", None, 2_740, 8_315, 68, 8, 8, ("phishing",), support_vectors=2_772),
        KnownSet("skin", "skin", None, 80_269, 164_788, 3, 8, 0.03, ("skin_nonskin",), support_vectors=10_484),
    )
}


EXACT = {
    "xxh3:87f3f92c7aaa29f2dd71569e4daa3549": 0.84751,  # adult
    "xxh3:08c438a6691488b2068bf401bd3f1edc": 0.98900,  # ijcnn
    "xxh3:732159dce82135ec7ca70f156856ef1f": 0.98704,  # web
    "xxh3:e806d84e6464f4ad6bbc71d7a6519810": 0.96813,  # phishing
    "xxh3:ddcfcb8a7f2d2b296755127f13a3ab9c": 0.99970,  # skin
    "xxh3:bd9184bda1b5ec1c41a4d768350e9238": 0.94513,  # demo, with C = 1 and gamma = 256
}
"""Accuracy on the validation split of scikit-learn's exact SVC, trained on the training split with the paper's C and
gamma: by the fingerprint of the prepared data, so that it is that of these very rows."""


def exact_accuracy(fingerprint: str) -> float | None:
    return EXACT.get(fingerprint)


def known_set(name: str) -> KnownSet:
    if name not in KNOWN:
        raise DataError(f"no known data set {name!r}; there are: {', '.join(KNOWN)}")
    return KNOWN[name]


def request(
    known: KnownSet,
    out: str,
    downloads: Path,
    report: Progress,
    *,
    collection: str = COLLECTION,
    folder: Path | None = None,
    **options: object,
) -> Request:
    """How to prepare the set; its files are found or fetched first. folder: where they may be; None: as the
    environment says."""
    names = [known.train] + ([known.test] if known.test else [])
    files = [
        str(_find(name, folder) or _fetch(f"{collection}/{remote}", downloads, name, report))
        for name, remote in zip(names, known.remote, strict=True)
    ]
    return Request(
        source=files[0],
        out=out,
        test=files[1] if known.test else None,
        test_size=0 if known.test else known.test_rows,
        **options,  # type: ignore[arg-type]
    )


def _find(name: str, given: Path | None) -> Path | None:
    folder = given or os.environ.get(FOLDER_VARIABLE)
    if folder and not Path(folder).is_dir():
        raise DataError(f"{'--data' if given else FOLDER_VARIABLE} is {folder}, which is not a folder")
    candidates = [Path(folder) / f"{name}{suffix}" for suffix in _SUFFIXES] if folder else []
    found = next((path for path in candidates if path.is_file()), None)
    if given and found is None:
        raise DataError(f"--data {given} has neither {name} nor {name}.bz2; leave --data out to download it")
    return found


def _fetch(url: str, downloads: Path, name: str, report: Progress) -> Path:
    """Downloads aside and renames when everything has arrived."""
    target = downloads / url.rpartition("/")[2]
    if target.is_file():
        return target
    with speaking(f"cannot write to {downloads}"):
        downloads.mkdir(parents=True, exist_ok=True)
    part = downloads / f".{target.name}.{secrets.token_hex(4)}.part"
    try:
        with urllib.request.urlopen(url, timeout=_SECONDS_OF_SILENCE) as answer, open(part, "wb") as sink:
            total = int(answer.headers.get("Content-Length") or 0)
            while block := answer.read(1 << 18):
                sink.write(block)
                report(f"downloading {target.name}", sink.tell(), max(total, sink.tell()))
            if total and sink.tell() != total:
                raise urllib.error.URLError(f"only {sink.tell():,} of {total:,} bytes came")
        os.replace(part, target)
    except (OSError, http.client.HTTPException) as error:
        reason = " ".join(str(getattr(error, "reason", None) or error or type(error).__name__).split())
        if isinstance(error, urllib.error.HTTPError):
            error.close()
        raise DataError(
            f"cannot download {url}: {reason}; get the file in another way, put it into a folder as {name} or "
            f"{name}.bz2, and set {FOLDER_VARIABLE} to that folder"
        ) from None
    finally:
        part.unlink(missing_ok=True)
    return target
