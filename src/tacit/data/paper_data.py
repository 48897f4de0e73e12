"""The papers' data sets as others distribute them: LIBSVM text, and NumPy archives of matrices.

These readers are here for the papers' experiments, and public. Read your own records with `read_csv` and a schema.
"""

import re
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from tacit.data.dataset import Dataset
from tacit.data.text import read_text
from tacit.errors import InputError

_LINE = re.compile(r"[^\s:]+(?:\s+[0-9]+:[^\s:]+)*")  # label index:value index:value ...
_FEATURES = {"a8a": 123, "ijcnn1": 22, "bio_train": 74}
_BIO = ("kdd04_bio_train.npz", "bio_train.dat")


def read_libsvm(path: str | Path, features: int | None = None) -> tuple[csr_array, np.ndarray]:
    """Rows and labels of a LIBSVM text file, plain, `.gz` or `.bz2`; `features` sets the width when it is known.

    Two labels other than -1 and +1 are mapped to them, the smaller to -1.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "two.txt"
    ...     _ = file.write_text("0 1:0.5 3:2\\n1 2:-1\\n")
    ...     X, y = read_libsvm(file)
    >>> X.toarray().tolist(), y.tolist()
    ([[0.5, 0.0, 2.0], [0.0, -1.0, 0.0]], [-1.0, 1.0])
    """
    source = Path(path).name
    cut = [line.partition("#")[0].strip() for line in read_text(path).split("\n")]
    lines = [line for line in cut if line]
    at = [number for number, line in enumerate(cut, start=1) if line]  # for messages
    if not lines:
        raise InputError(f"at least one row is needed; {source} has none; fetch or write it again")
    for number, line in zip(at, lines, strict=True):
        if not _LINE.fullmatch(line):
            raise _bad_line(source, number, line)
    # Every line is now a label and pairs, so the numbers of all lines can be read at once.
    counts = np.array([line.count(":") for line in lines])
    try:
        numbers = np.array(" ".join(lines).replace(":", " ").split(), dtype=np.float64)
    except ValueError:
        numbers = None
    if numbers is None or not np.isfinite(numbers).all():
        number, line = next((n, line) for n, line in zip(at, lines, strict=True) if not _all_finite(line))
        raise _bad_line(source, number, line)

    indptr = np.concatenate([[0], np.cumsum(counts)])
    is_label = np.zeros(len(numbers), dtype=bool)
    is_label[2 * indptr[:-1] + np.arange(len(lines))] = True
    pairs = numbers[~is_label].reshape(-1, 2)
    indices = pairs[:, 0].astype(np.int64) - 1
    row = np.repeat(np.arange(len(lines)), counts)
    falls = np.flatnonzero((np.diff(indices) <= 0) & (np.diff(row) == 0)) + 1
    wrong = np.concatenate([falls, np.flatnonzero(indices < 0)])
    if len(wrong):
        raise InputError(
            f"indices must start at 1 and rise; {source} line {at[row[wrong.min()]]} has {indices[wrong.min()] + 1} "
            "out of place; sort the pairs of that line"
        )
    widest = int(indices.max(initial=-1)) + 1
    if features is not None and widest > features:
        k = int(np.argmax(indices >= features))
        raise InputError(
            f"indices must not pass features={features}; {source} line {at[row[k]]} has {indices[k] + 1}; "
            "raise features, or check the file"
        )
    shape = (len(lines), features or widest)
    X = csr_array((pairs[:, 1].copy(), indices.astype(np.int32), indptr.astype(np.int32)), shape=shape)
    return X, _signs(numbers[is_label], source)


def _bad_line(source: str, number: int, line: str) -> InputError:
    shown = line if len(line) <= 60 else line[:57] + "..."
    return InputError(
        f"a line must be a label and index:value pairs of finite numbers; {source} line {number} is {shown!r}; "
        "correct it"
    )


def _all_finite(line: str) -> bool:
    try:
        return bool(np.isfinite(np.array(line.replace(":", " ").split(), dtype=np.float64)).all())
    except ValueError:
        return False


def _signs(labels: np.ndarray, source: str) -> np.ndarray:
    """Labels as -1 and +1."""
    if labels.dtype.kind not in "biuf":
        raise InputError(f"labels must be numbers; those of {source} are {labels.dtype}; write -1 and +1")
    distinct = np.unique(labels)
    if set(distinct) <= {-1.0, 1.0}:
        return labels.astype(np.float64)
    if len(distinct) != 2:
        shown = ", ".join(f"{label:g}" for label in distinct[:5])
        raise InputError(
            f"two classes are needed; {source} has {len(distinct)} distinct labels ({shown}); "
            "choose which of them are -1 and +1 and rewrite the labels"
        )
    return np.where(labels == distinct[1], 1.0, -1.0)


def read_npz(path: str | Path) -> tuple[Dataset, Dataset | None]:
    """Train and test sets of a NumPy archive in either of two forms.

    Sparse: {train,test}_{data,indices,indptr,shape,y}, the parts of two CSR matrices. Dense: X_times_100, hundredths
    as integers, and y, one set without a test set.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "one.npz"
    ...     np.savez(file, X_times_100=np.array([[150, -25]]), y=np.array([1]))
    ...     train, test = read_npz(file)
    >>> train.X.tolist(), train.y.tolist(), test
    ([[1.5, -0.25]], [1.0], None)
    """
    path = Path(path)
    if not path.is_file():
        raise InputError(f"a file is needed; {path} is not a file; check the path")
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except (OSError, ValueError, TypeError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        # Text, a cut archive, pickled objects and a single array fail in different ways.
        raise InputError(f"the file must be a NumPy archive; {path.name} is not ({error}); fetch it again") from None
    if {"X_times_100", "y"} <= arrays.keys():
        X = arrays["X_times_100"] / 100.0
        return _dataset(X, _signs(arrays["y"], path.name)), None
    parts = [f"{side}_{part}" for side in ("train", "test") for part in ("data", "indices", "indptr", "shape", "y")]
    lacking = [part for part in parts if part not in arrays]
    if lacking:
        raise InputError(
            f"the archive must hold X_times_100 and y, or train_ and test_ data, indices, indptr, shape and y; "
            f"{path.name} lacks {', '.join(lacking)}; write it in one of these forms"
        )
    return _sparse_side(arrays, "train", path.name), _sparse_side(arrays, "test", path.name)


def _sparse_side(arrays: dict[str, np.ndarray], side: str, source: str) -> Dataset:
    data = arrays[f"{side}_data"].astype(np.float64)
    indices, indptr = (arrays[f"{side}_{part}"].astype(np.int32) for part in ("indices", "indptr"))
    try:
        X = csr_array((data, indices, indptr), shape=tuple(int(n) for n in arrays[f"{side}_shape"]))
        X.check_format()
    except (ValueError, TypeError) as error:
        raise InputError(f"{side}_* must be a CSR matrix; in {source} it is not ({error}); write it again") from None
    X.sort_indices()
    return _dataset(X, _signs(arrays[f"{side}_y"], source))


def load(name_or_path: str | Path, directory: str | Path | None = None) -> tuple[Dataset, Dataset | None]:
    """Train set and, if there is one, test set of a file, or of a named data set in a directory.

    The names are a8a, ijcnn1 and bio_train, the data sets of the papers besides Adult. A path ending in `.npz` is read
    by `read_npz`, any other by `read_libsvm`; its test set is the file beside it with `.t` in its name.

    >>> load("a8a", directory="nowhere")
    Traceback (most recent call last):
    ...
    tacit.errors.InputError: the data set must be in the directory; a8a is not in nowhere, which was searched for \
a8a.npz, a8a, a8a.txt, a8a.bz2; download one of them there
    """
    train, test = _loaded(name_or_path, directory)
    if train.y is not None and len(np.unique(train.y)) < 2:
        raise InputError(f"a classifier learns from both classes; {name_or_path} has only one; check its labels")
    return train, test


def _loaded(name_or_path: str | Path, directory: str | Path | None) -> tuple[Dataset, Dataset | None]:
    name = str(name_or_path)
    if name not in _FEATURES:
        path = Path(name_or_path) if directory is None else Path(directory) / name_or_path
        if not path.is_file():
            raise InputError(f"a file or one of {', '.join(_FEATURES)} is needed; {path} is neither; check the name")
        return read_npz(path) if path.suffix == ".npz" else _libsvm_pair(path, None)
    if directory is None:
        raise InputError(f"a directory is needed to look for {name}; got none; name the one that holds its file")
    names = [f"{name}.npz", name, f"{name}.txt", f"{name}.bz2"]
    if name == "bio_train":
        names = [*_BIO, *names]
    found = next((Path(directory) / file for file in names if (Path(directory) / file).is_file()), None)
    if found is None:
        raise InputError(
            f"the data set must be in the directory; {name} is not in {directory}, which was searched for "
            f"{', '.join(names)}; download one of them there"
        )
    if found.suffix == ".npz":
        return read_npz(found)
    if found.suffix == ".dat":
        return _kdd_cup(found), None
    return _libsvm_pair(found, _FEATURES[name])


def _libsvm_pair(path: Path, features: int | None) -> tuple[Dataset, Dataset | None]:
    # ijcnn1 has its test set in ijcnn1.t, a8a.txt in a8a.t.txt or a8a.t, ijcnn1.bz2 in ijcnn1.t.bz2.
    tests = [path.with_name(f"{path.name}.t"), path.with_suffix(f".t{path.suffix}"), path.with_suffix(".t")]
    X, y = read_libsvm(path, features)
    test = next((file for file in tests if file.is_file() and file != path), None)
    if test is None:
        return _dataset(X, y), None
    X_test, y_test = read_libsvm(test, features)
    width = max(X.shape[1], X_test.shape[1])  # a feature may occur on one side only
    X.resize(X.shape[0], width)
    X_test.resize(X_test.shape[0], width)
    return _dataset(X, y), _dataset(X_test, y_test)


def _kdd_cup(path: Path) -> Dataset:
    """The protein homology file of the KDD Cup 2004: block, example, class, then 74 features, in columns."""
    text = read_text(path)
    try:
        numbers = np.loadtxt(text.splitlines(), ndmin=2) if text.strip() else np.empty((0, 0))
    except ValueError as error:
        raise InputError(f"every line must hold 77 numbers; {path.name} does not ({error}); fetch it again") from None
    if numbers.shape[1] != 77 or not np.isfinite(numbers).all():
        raise InputError(
            f"every line must hold 77 finite numbers; {path.name} has {numbers.shape[1]} columns; fetch it again"
        )
    return _dataset(np.ascontiguousarray(numbers[:, 3:]), _signs(numbers[:, 2], path.name))


def _dataset(X: Any, y: np.ndarray) -> Dataset:
    names = tuple(f"x{k}" for k in range(1, X.shape[1] + 1))
    return Dataset(X, y, names, np.arange(X.shape[0]))
