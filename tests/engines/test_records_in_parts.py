"""An agent with its records in parts, in other processes, is the agent that it would be with all of them."""

from functools import partial

import numpy as np
import pandas
import pytest
import scipy.sparse
from conftest import make_parts
from patients import SCHEMA
from ray_here import Here

import tacit
from tacit.algorithms import DPADMM, DualPerturbedADMM, RecycledADMM
from tacit.cli.records import _warn, encoded, in_parts, records_of
from tacit.composite import lasso
from tacit.core.losses import HuberHinge, Logistic, Squared
from tacit.core.multinomial import Multinomial
from tacit.data import Schema, read_table
from tacit.engines.records_in_parts import Holder, RecordsInParts
from tacit.errors import EngineError, InputError
from tacit.privacy.filters import epsilon
from tacit.privacy.ledger import Ledger

SIZES = (7, 40, 23, 61, 12)
SETTINGS = {"scale": 3.0, "l2": 0.1}
ALONE = tacit.Graph.ring(1)


def given(part):
    """Reads a part that is there already."""
    return *part, len(part[1])


def reads(parts):
    return [partial(given, part) for part in parts]


def pooled(parts):
    stack = scipy.sparse.vstack if scipy.sparse.issparse(parts[0][0]) else np.concatenate
    return stack([X for X, _ in parts]), np.concatenate([y for _, y in parts])


def case(name):
    parts = make_parts(SIZES, sparse=name == "sparse")
    if name == "classes":
        return [(X, np.arange(len(y)) % 3.0) for X, y in parts], Multinomial(3)
    return parts, {"hinge": HuberHinge(), "squared": Squared()}.get(name, Logistic())


@pytest.mark.parametrize("name", ["dense", "sparse", "hinge", "squared", "classes"])
def test_the_problem_is_that_of_all_records(name):
    parts, loss = case(name)
    whole = tacit.Problem([pooled(parts)], loss=loss, **SETTINGS)
    rng = np.random.default_rng(1)
    with RecordsInParts.opened(Here(shards=2), reads(parts)) as records:
        found = records.problem(loss=loss, **SETTINGS)
        assert (len(records), records.about) == (sum(SIZES), list(SIZES))
        assert (found.agents, found.dimension, found.sizes.tolist()) == (1, whole.dimension, [sum(SIZES)])
        f, b = rng.normal(size=(2, 1, whole.dimension))
        chosen = rng.random((1, sum(SIZES))) < 0.3
        for ask in (
            lambda p: p.value(f),
            lambda p: p.gradient(f),
            lambda p: p.average_loss(f),
            lambda p: p.sampled_gradient(f, chosen, 0.3),
            lambda p: p.second_moment(),
            lambda p: p.smoothness(),
            lambda p: p.store.longest_rows,
            lambda p: p.store.curved(np.arange(1), f, b),
        ):
            np.testing.assert_allclose(ask(found), ask(whole), rtol=1e-12, atol=1e-12)
        for weight in (0.0, 0.3, 50.0):
            x = found.argmin(linear=b, weight=weight, centre=f)
            norm = np.linalg.norm(whole.gradient(x) + b + 2 * weight * (x - f))
            assert norm <= 1e-9 * max(1.0, 0.1 + 2 * weight)
            np.testing.assert_allclose(x, whole.argmin(linear=b, weight=weight, centre=f), atol=1e-7)


def test_two_problems_over_the_same_records_do_not_change_each_other():
    """A release by one of them would else have the noise for the weights of the other."""
    parts, f = make_parts(SIZES), np.ones((1, 15))
    with RecordsInParts.opened(Here(shards=2), reads(parts)) as records:
        first = records.problem(loss=Logistic(), scale=1.0)
        before = first.gradient(f)
        second = records.problem(loss=HuberHinge(), scale=10.0)
        assert (first.gradient(f) == before).all()
        whole = tacit.Problem([pooled(parts)], loss=HuberHinge(), scale=10.0)
        np.testing.assert_allclose(second.gradient(f), whole.gradient(f), rtol=1e-12)


def test_the_number_of_processes_changes_no_bit():
    parts, models = make_parts(SIZES), []
    for processes in (1, 2, 3, 9):
        with RecordsInParts.opened(Here(shards=processes), reads(parts)) as records:
            models.append(records.problem(loss=Logistic(), **SETTINGS).argmin(linear=0, weight=0.0, centre=0))
    assert all((model == models[0]).all() for model in models)


@pytest.mark.parametrize(
    "method",
    [
        DualPerturbedADMM(budget=tacit.Gaussian(5.0)),
        RecycledADMM(alpha=2.0),
        DPADMM(term=lasso(15, 0.05), step=0.3, penalty=0.1, budget=tacit.Gaussian(5.0)),
    ],
)
def test_the_guarantee_is_the_same(method):
    """The same plan, the same costs, and with the same noise the same releases, but for the last bits."""
    parts, noise = make_parts(SIZES), tacit.SeededNoise(3)
    whole = tacit.Problem([pooled(parts)], **SETTINGS)
    with RecordsInParts.opened(Here(shards=2), reads(parts)) as records:
        found = records.problem(loss=Logistic(), **SETTINGS)
        assert tacit.plan(method, found, ALONE, rounds=6).spent == tacit.plan(method, whole, ALONE, rounds=6).spent
        runs = [tacit.simulate(method, each, ALONE, rounds=6, noise=noise, record=True) for each in (found, whole)]
    assert runs[0].spent == runs[1].spent
    np.testing.assert_allclose(runs[0].trajectory, runs[1].trajectory, atol=1e-8)


def test_where_the_fast_solver_ends_too_early_descent_takes_over(monkeypatch):
    monkeypatch.setattr("tacit.core.solvers.truncated_newton._NEWTON", 0)
    test_the_guarantee_is_the_same(DualPerturbedADMM(budget=tacit.Gaussian(5.0), penalty=1.0))


def test_a_record_that_is_too_long_is_refused():
    parts = make_parts(SIZES)
    parts[3][0][5] *= 9 / np.linalg.norm(parts[3][0][5])
    with RecordsInParts.opened(Here(shards=2), reads(parts)) as records:
        found = records.problem(loss=Logistic(), **SETTINGS)
        with pytest.raises(InputError, match="row of norm 9"):
            found.require_row_norm(1.0)


def test_bad_parts_are_refused():
    parts = make_parts(SIZES)
    with (
        pytest.raises(InputError, match="same features"),
        RecordsInParts.opened(Here(shards=2), reads([*parts, (np.eye(3), np.ones(3))])),
    ):
        pass
    with pytest.raises(InputError, match="at least one part"), RecordsInParts.opened(Here(shards=2), []):
        pass
    with (
        RecordsInParts.opened(Here(shards=2), reads([(X, y * 2) for X, y in parts])) as records,
        pytest.raises(InputError, match="labels -1 and \\+1"),
    ):
        records.problem(loss=Logistic())


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_files_in_parts_are_the_file_of_all_records(kind, tmp_path, capsys):
    """The same objective, and the same warnings; a ledger learns how many records there are and when they came."""
    schema = Schema.from_toml(_file(tmp_path / "schema.toml", SCHEMA))
    rng = np.random.default_rng(0)
    frame = pandas.DataFrame(
        {
            "age": rng.integers(20, 130, 90).astype(str),  # some beyond the schema's bounds
            "ward": rng.choice(["surgery", "medicine"], 90),
            "died": rng.choice(["yes", "no"], 90),
            "came": np.repeat(["2023", "2024"], [40, 50]),  # the first file has one cohort
        }
    )
    for name, rows in (("all", frame), ("part-0", frame[:30]), ("part-1", frame[30:37]), ("part-2", frame[37:])):
        file = tmp_path / f"{name}.{kind}"
        rows.to_csv(file, index=False) if kind == "csv" else rows.to_parquet(file)
    with Ledger.new(tmp_path / "l", population="p", cost=epsilon, cohorts="came") as ledger:
        table = read_table(tmp_path / f"all.{kind}")
        data, expected = encoded(table, schema), records_of(table, ledger)
        warned = capsys.readouterr().err
        files, told = str(tmp_path / f"part-*.{kind}"), partial(_warn, note="")
        with in_parts(files, schema, ledger, Here(shards=2), told) as (records, found):
            assert (found.rows, found.cohorts) == (expected.rows, expected.cohorts) == (90, ("2023", "2024"))
            assert capsys.readouterr().err == warned
            f = rng.normal(size=(1, schema.dimension))
            whole = tacit.Problem([(data.X, data.y)], **SETTINGS)
            gradient = records.problem(loss=Logistic(), **SETTINGS).gradient(f)
            np.testing.assert_allclose(gradient, whole.gradient(f), rtol=1e-12)
        with pytest.raises(InputError, match="no file is named"), in_parts("nothing-*", schema, None, Here(), told):
            pass


def _file(path, text):
    path.write_text(text)
    return path


def test_a_lost_process_is_replaced_and_no_bit_changes():
    parts, asked = make_parts(SIZES), []
    with RecordsInParts.opened(Here(shards=2), reads(parts)) as records:
        found = records.problem(loss=Logistic(), **SETTINGS)
        model = found.argmin(linear=0, weight=0.0, centre=0)
        first = records._holders[1]
        ask = records.ask

        def dying(question, *arguments, each=()):
            asked.append(question)
            if len(asked) == 7:
                first.die()
            return ask(question, *arguments, each=each)

        records.ask = dying
        again = found.argmin(linear=0, weight=0.0, centre=0)
    assert first is not records._holders[1]
    assert len(asked) > 7
    assert (again == model).all()


def test_processes_that_are_lost_again_and_again_are_an_error(monkeypatch):
    with RecordsInParts.opened(Here(shards=2), reads(make_parts(SIZES))) as records:
        found = records.problem(loss=Logistic(), **SETTINGS)
        monkeypatch.setattr(Holder, "ask", lambda *_: records._ray.exceptions.ActorDiedError())
        with pytest.raises(EngineError, match="again and again"):
            found.value(np.zeros((1, 15)))


class Changing:
    """Reads a part for the first time; later it finds another one, or none."""

    def __init__(self, part, later):
        self.part, self.later = part, later
        self.begun = False

    def __call__(self):
        found = self.later if self.begun else self.part
        if found is None:
            raise InputError("the file is gone")
        return given(found)

    def __reduce__(self):
        return _changing, (id(self),)


def _changing(place):
    return next(each for each in CHANGING if id(each) == place)


CHANGING: list[Changing] = []


@pytest.mark.parametrize("later", ["gone", "longer", "other"])
def test_records_that_are_not_what_they_were_end_the_run(later):
    """A process that is lost is not replaced by one with fewer records, or with others."""
    parts = make_parts(SIZES)
    X, y = parts[4]
    changed = {"gone": None, "longer": (np.concatenate([X, X[:1]]), np.append(y, 1.0)), "other": (X, -y)}[later]
    CHANGING[:] = [Changing(part, part) for part in parts[:4]] + [Changing(parts[4], changed)]
    with RecordsInParts.opened(Here(shards=2), CHANGING) as records:
        found = records.problem(loss=Logistic(), **SETTINGS)
        CHANGING[4].begun = True
        records._holders[1].die()
        with pytest.raises(InputError, match="the file is gone" if later == "gone" else "have changed since"):
            found.value(np.zeros((1, 15)))
