"""LIBSVM text and NumPy archives: round trips, and what is refused."""

import bz2
import gc
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array

from tacit.data import load, read_libsvm, read_npz
from tacit.errors import InputError


def some_data(rows: int = 50, features: int = 7, seed: int = 0) -> tuple[csr_array, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = csr_array(rng.standard_normal((rows, features)) * (rng.random((rows, features)) < 0.4))
    y = rng.choice([-1.0, 1.0], rows)
    y[:2] = -1, 1
    return X, y


def libsvm_text(X: csr_array, y: np.ndarray) -> str:
    lines = []
    for label, a, b in zip(y, X.indptr[:-1], X.indptr[1:], strict=True):
        pairs = zip(X.indices[a:b].tolist(), X.data[a:b].tolist(), strict=True)
        lines.append(" ".join([f"{label:+g}", *(f"{k + 1}:{value!r}" for k, value in pairs)]))
    return "\n".join(lines) + "\n"


def archive(path: Path, X: csr_array, y: np.ndarray) -> Path:
    parts = {"data": X.data, "indices": X.indices.astype(np.uint8), "indptr": X.indptr, "shape": X.shape, "y": y}
    np.savez(path, **{f"{side}_{name}": part for side in ("train", "test") for name, part in parts.items()})
    return path


def assert_same(X: csr_array, other: csr_array) -> None:
    assert X.shape == other.shape
    assert np.array_equal(X.toarray(), other.toarray())


@pytest.mark.parametrize("name", ["data.txt", "data.bz2"])
def test_libsvm_text_is_read_back_exactly(tmp_path, name):
    X, y = some_data()
    text = libsvm_text(X, y).encode()
    (tmp_path / name).write_bytes(bz2.compress(text) if name.endswith("bz2") else text)
    X_read, y_read = read_libsvm(tmp_path / name, features=7)
    assert_same(X_read, X)
    assert np.array_equal(y_read, y)
    assert (X_read.data.dtype, X_read.indices.dtype) == (np.float64, np.int32)


@pytest.mark.parametrize(("labels", "signs"), [("0 1", [-1, 1]), ("2 1", [1, -1]), ("+1 -1", [1, -1]), ("1 1", [1, 1])])
def test_two_labels_become_signs(tmp_path, labels, signs):
    (tmp_path / "f").write_text("\n".join(f"{label} 1:1" for label in labels.split()))
    assert read_libsvm(tmp_path / "f")[1].tolist() == signs


def test_comments_blank_lines_and_rows_of_zeros(tmp_path):
    (tmp_path / "f").write_text("# from somewhere\n\n-1\n+1 2:3 # the second\n")
    X, y = read_libsvm(tmp_path / "f")
    assert X.toarray().tolist() == [[0, 0], [0, 3]]
    assert y.tolist() == [-1, 1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "f has none"),
        ("1 1:2\n1 1:2:3\n", "f line 2 is '1 1:2:3'"),
        ("1 1:2\n\n1 qid:3\n", "f line 3 is '1 qid:3'"),
        ("1 1:2\n1 3 4:5\n1 4:5:6\n", "f line 2 is '1 3 4:5'"),  # line 3 lacks what line 2 has too much
        ("1 1:x\n", "f line 1 is '1 1:x'"),
        ("1 1:1\n1 1:nan\n", "f line 2 is '1 1:nan'"),
        ("1 0:1\n", "f line 1 has 0 out of place"),
        ("1 1:1\n1 3:1 2:1\n", "f line 2 has 2 out of place"),
        ("1 1:1\n1 2:1 2:1\n", "f line 2 has 2 out of place"),
        ("1 1:1\n1 4:1\n", "features=3; f line 2 has 4"),
        ("1 1:1\n2 1:1\n3 1:1\n", "f has 3 distinct labels (1, 2, 3)"),
        ("5 1:1\n", "f has 1 distinct labels (5)"),
    ],
)
def test_bad_libsvm_lines_are_refused_by_number(tmp_path, text, message):
    (tmp_path / "f").write_text(text)
    with pytest.raises(InputError) as error:
        read_libsvm(tmp_path / "f", features=3)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_sparse_archive(tmp_path):
    X, y = some_data()
    found = list(read_npz(archive(tmp_path / "a.npz", X, y)))
    assert len(found) == 2
    for data in found:
        assert_same(data.X, X)
        assert np.array_equal(data.y, y)
        assert (data.X.data.dtype, data.X.indices.dtype) == (np.float64, np.int32)


def test_dense_archive_of_hundredths(tmp_path):
    np.savez(tmp_path / "a.npz", X_times_100=np.array([[5200, -3], [0, 1]], dtype=np.int32), y=np.array([0, 1]))
    train, test = read_npz(tmp_path / "a.npz")
    assert train.X.tolist() == [[52.0, -0.03], [0.0, 0.01]]
    assert train.y.tolist() == [-1, 1]
    assert test is None


def test_bad_archives_are_refused(tmp_path):
    path = tmp_path / "a.npz"
    path.write_text("not an archive")
    with pytest.raises(InputError, match=r"must be a NumPy archive; a\.npz is not"):
        read_npz(path)
    np.savez(path, X_times_100=np.array([{}], dtype=object), y=np.array([1]))  # a pickle
    with pytest.raises(InputError, match=r"must be a NumPy archive; a\.npz is not"):
        read_npz(path)
    np.savez(path, y=np.array([1]))
    with pytest.raises(InputError, match=r"a\.npz lacks train_data, train_indices"):
        read_npz(path)
    X, y = some_data()
    X.indices[0] = 200
    with pytest.raises(InputError, match=r"train_\* must be a CSR matrix; in a\.npz it is not"):
        read_npz(archive(path, X, y))
    with pytest.raises(InputError, match=r"nowhere\.npz is not a file"):
        read_npz(tmp_path / "nowhere.npz")
    np.savez(path, X_times_100=np.eye(2), y=np.array(["yes", "no"]))
    with pytest.raises(InputError, match=r"labels must be numbers; those of a\.npz are"):
        read_npz(path)


@pytest.mark.filterwarnings("error")
def test_a_cut_archive_is_closed(tmp_path):
    path = archive(tmp_path / "a.npz", *some_data())
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(InputError, match=r"must be a NumPy archive; a\.npz is not"):
        read_npz(path)
    gc.collect()  # a file that was left open would be reported here


@pytest.mark.parametrize("labels", [[1, 1], [-1, -1], [1]])
def test_a_classifier_is_not_given_one_class(tmp_path, labels):
    np.savez(tmp_path / "a.npz", X_times_100=np.ones((len(labels), 3)), y=np.array(labels))
    with pytest.raises(InputError, match="learns from both classes"):
        load(tmp_path / "a.npz")


@pytest.mark.parametrize(
    ("train_name", "test_name"),
    [
        ("ijcnn1", "ijcnn1.t"),
        ("ijcnn1.txt", "ijcnn1.t.txt"),
        ("ijcnn1.txt", "ijcnn1.t"),
        ("ijcnn1.bz2", "ijcnn1.t.bz2"),
    ],
)
def test_named_data_sets_are_found_with_their_test_set(tmp_path, train_name, test_name):
    sides = {train_name: some_data(seed=1), test_name: some_data(rows=9, seed=2)}
    for name, side in sides.items():
        text = libsvm_text(*side).encode()
        (tmp_path / name).write_bytes(bz2.compress(text) if name.endswith("bz2") else text)
    for data, (X, y) in zip(load("ijcnn1", tmp_path), sides.values(), strict=True):
        assert data.X.shape == (X.shape[0], 22)
        assert np.array_equal(data.X.toarray()[:, :7], X.toarray())
        assert np.array_equal(data.y, y)
        assert data.names[:2] == ("x1", "x2")


def test_a_file_by_its_path_has_the_width_of_its_wider_side(tmp_path):
    (tmp_path / "mine").write_text("1 1:1\n-1 2:1\n")
    (tmp_path / "mine.t").write_text("1 5:1\n-1 2:1\n")
    train, test = load(tmp_path / "mine")
    assert train.X.shape == test.X.shape == (2, 5)
    assert load("mine", tmp_path)[0].X.shape == (2, 5)
    (tmp_path / "mine.t").unlink()
    assert load(tmp_path / "mine")[1] is None


def test_the_archive_is_preferred_and_the_kdd_cup_file_is_read(tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.integers(-999, 999, (6, 74)) / 100, np.array([0, 1, 0, 0, 1, 0])
    np.savetxt(
        tmp_path / "bio_train.dat", np.column_stack([np.arange(6), np.arange(6), y, X]), fmt="%.2f", delimiter="\t"
    )
    train, test = load("bio_train", tmp_path)
    assert np.array_equal(train.X, X)
    assert np.array_equal(train.y, 2.0 * y - 1)
    assert test is None
    np.savez(tmp_path / "kdd04_bio_train.npz", X_times_100=np.full((2, 74), 100), y=np.array([1, 0]))
    assert load("bio_train", tmp_path)[0].X.shape == (2, 74)
    (tmp_path / "kdd04_bio_train.npz").unlink()
    (tmp_path / "bio_train.dat").write_text("1 2 3\n")
    with pytest.raises(InputError, match=r"77 finite numbers; bio_train\.dat has 3 columns"):
        load("bio_train", tmp_path)


def test_what_was_looked_for_is_listed(tmp_path):
    with pytest.raises(InputError, match=r"bio_train is not in .*kdd04_bio_train\.npz, bio_train\.dat, bio_train\.npz"):
        load("bio_train", tmp_path)
    with pytest.raises(InputError, match="a directory is needed to look for a8a"):
        load("a8a")
    with pytest.raises(InputError, match="one of a8a, ijcnn1, bio_train is needed; a1a is neither"):
        load("a1a")
