"""Kernels are got ready when they are first called, by whichever thread that is."""

from pathlib import Path

import numba

from tacit.core import jit


def _twice(x):
    return x + x


def test_stale_kernels_go_before_anybody_has_one_to_call(tmp_path, monkeypatch):
    """Another thread calls what it finds, without a lock."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    made = jit.entry(_twice)
    folder = Path(made._made().stats.cache_path)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "x.nbi").write_text("stale")
    jit._drop_stale([made], [Path(__file__)])
    assert made._compiled is None
    assert sorted(path.name for path in folder.iterdir()) == ["tacit-kernels.sha256"]
