"""Whatever works in blocks gives the same for one item, for a block less one, a block, one more, and two and one more.

The reference never has blocks: it is the formula in numpy, or the same code with one block for everything.
"""

import numpy as np
import pytest
import scipy.sparse

import tacit
from tacit.core.multinomial import Multinomial
from tacit.data import encoding
from tacit.data.columns import Category, Classes, Number
from tacit.data.schema import Schema
from tacit.data.table import Table
from tacit.data.text import read_blocks
from tacit.exchange.keys import SecureWords
from tacit.privacy import exact_noise, noise


def sizes(block):
    return [1, block - 1, block, block + 1, 2 * block + 1]


@pytest.mark.parametrize("law", ["gaussian", "laplace", "spherical", "uniform"])
def test_secure_noise(law, monkeypatch):
    d = 7
    block = 2**14 // exact_noise.UNIFORMS[law](d)
    for n in sizes(block):
        value, found = np.linspace(-1, 1, n * d).reshape(n, d), []
        for at_once in (2**14, 2**40):
            monkeypatch.setattr(noise, "_BLOCK", at_once)
            source = tacit.SecureNoise(random_bytes=np.random.default_rng(n).bytes)
            found.append(source.add(law, value, 0.5, np.arange(n), 0))
        assert np.array_equal(*found), n
        assert (found[0] != value).all()


# Rows that a gradient reads twice: max(8, min(256, 32768 // d)) at once
@pytest.mark.parametrize(("d", "block"), [(3, 256), (200, 163), (5000, 8)])
@pytest.mark.parametrize("kind", ["dense", "csr"])
def test_gradients_and_minimisers(kind, d, block):
    for n in sizes(block):
        rng = np.random.default_rng(n)
        X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.2)
        X[:, 0] = 1.0  # no row is empty
        X /= np.linalg.norm(X, axis=1, keepdims=True)
        y, f = rng.choice([-1.0, 1.0], size=n), rng.normal(size=(1, d))
        problem = tacit.Problem([(scipy.sparse.csr_array(X) if kind == "csr" else X, y)], scale=float(n), l2=0.3)

        def gradient(f, X=X, y=y):
            return -(y / (1 + np.exp(y * (X @ f)))) @ X

        np.testing.assert_allclose(problem.data_gradient(f)[0], gradient(f[0]), rtol=1e-10, atol=1e-12 * n)
        if d <= 200:
            best = problem.argmin(linear=f, weight=0.1, centre=0.0)[0]
            assert np.linalg.norm(gradient(best) + 0.5 * best + f[0]) < 1e-8, n
        every_other = np.arange(n)[None] % 2 == 0
        half = gradient(f[0], X[::2], y[::2])
        np.testing.assert_allclose(
            problem.sampled_data_gradient(f, every_other, 0.5)[0], 2 * half, rtol=1e-10, atol=1e-12 * n
        )


def test_gradients_of_several_classes():
    d = 3
    for n in sizes(256 // 3):
        rng = np.random.default_rng(n)
        X, y, F = rng.normal(size=(n, d)), rng.integers(0, 3, size=n), rng.normal(size=(3, d))
        problem = tacit.Problem([(X, y)], loss=Multinomial(3), scale=float(n))
        p = np.exp(X @ F.T)
        p /= p.sum(axis=1, keepdims=True)
        p[np.arange(n), y] -= 1
        np.testing.assert_allclose(problem.data_gradient(F.reshape(1, -1))[0], (p.T @ X).ravel(), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("wide", [False, True], ids=["dense", "sparse"])
def test_records_that_are_encoded(wide):
    """Clipped rows, dense or sparse; 16,384 at once."""
    names = tuple("abcdefgh") if wide else ("a", "b")
    schema = Schema(
        label=Classes("label", positive=("1",), negative=("0",)),
        columns=(Number("age", bounds=(0, 100)), Category("kind", categories=names)),
        row_norm=1.0,
    )
    assert encoding._ROWS == 2**14
    for n in sizes(2**14):
        rng = np.random.default_rng(n)
        ages, kinds = rng.integers(1, 100, size=n), rng.integers(0, len(names), size=n)
        cells = {
            "age": np.char.mod("%d", ages).astype(object),
            "kind": np.array(names, dtype=object)[kinds],
            "label": np.where(ages > 50, "1", "0").astype(object),
        }
        found = schema.encode(Table(cells, source="made.csv"))
        assert scipy.sparse.issparse(found.X) == wide
        dense = found.X.toarray() if wide else found.X
        columns = {name: k for k, name in enumerate(schema.feature_names)}
        expected = np.zeros((n, len(columns)))
        expected[:, columns["age"]] = ages / 100
        places = np.array([columns[f"kind={each}"] for each in names])
        expected[np.arange(n), places[kinds]] = 1.0
        if "intercept" in columns:
            expected[:, columns["intercept"]] = 1.0
        expected /= np.maximum(1.0, np.linalg.norm(expected, axis=1, keepdims=True))
        np.testing.assert_allclose(dense, expected, rtol=1e-12)


def test_words_of_a_seed():
    seed = bytes(range(32))
    for n in sizes(8):
        found = []
        for chunk in (8, 2**14):
            total = np.arange(n, dtype=np.uint64)
            SecureWords(chunk).add(seed, total)
            found.append(total)
        assert np.array_equal(*found)
        assert not np.array_equal(found[0], np.arange(n))


def test_lines_of_a_file(tmp_path):
    for n in sizes(64):
        file = tmp_path / f"{n}.csv"
        text = b"".join(b"%d,x\n" % k for k in range(n))[:n]
        file.write_bytes(text)
        assert b"".join(read_blocks(file, size=64)) == text
