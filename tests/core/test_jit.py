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


def test_kernels_go_when_a_source_has_changed_and_stay_when_none_has(tmp_path, monkeypatch):
    """Whatever was in the cache before, and whoever has left a stamp there."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "cache"))
    made, source = jit.entry(_twice), tmp_path / "source.py"
    kept = Path(made._made().stats.cache_path) / "x.nbc"
    kept.parent.mkdir(parents=True, exist_ok=True)
    for text, stays in (("one", False), ("one", True), ("two", False), ("two", True), ("one", False)):
        source.write_text(text)
        kept.write_text("compiled")
        jit._drop_stale([made], [source])
        assert kept.exists() == stays, text
