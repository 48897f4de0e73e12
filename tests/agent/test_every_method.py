"""Every method that a file can say runs with agents, to the last bit as in a simulation; or it is said why not."""

import json
from dataclasses import replace

import finished_run
import numpy as np
import pytest
from conftest import make_parts
from finished_run import FEATURES, NAMES, SCHEMA, SIZES

import tacit
from tacit.agent.able import needs_totals
from tacit.agent.certificate.examination import examined
from tacit.agent.federation import ROWS, SUMS, TOTALS, Federation
from tacit.algorithms import (
    DGD,
    DPADMM,
    EXTRA,
    AcceleratedDPADMM,
    Averaged,
    Between,
    CensoredADMM,
    ConsensusADMM,
    DualPerturbedADMM,
    Geometric,
    GradientDescent,
    IncrementalADMM,
    OneShotAveraging,
    ParallelWalkADMM,
    PenaltyPerturbedADMM,
    PrimalPerturbedADMM,
    RandomAggregationADMM,
    RandomAggregationGD,
    RandomCoordinateDescent,
    RandomWalk,
    RecycledADMM,
    SharingADMM,
    SummedDPADMM,
    SummedGradientDescent,
    TokenGradientDescent,
    WalkADMM,
    WalkProximalGradient,
)
from tacit.composite import Term
from tacit.composite.prox import L1, ElasticNet
from tacit.core.graph import Graph
from tacit.core.losses import HuberHinge
from tacit.errors import InputError
from tacit.privacy.events import Gaussian, Pure
from tacit.run.parts import METHODS
from tacit.run.setting import reserve_of
from tacit.run.spec import RunSpec
from tacit.run.trust import Trust

TERM = Term([[1.0, -1.0, 0.0], [0.0, 1.0, -1.0]], L1(0.05))
RUNS = [
    ConsensusADMM(penalty=0.3),
    CensoredADMM(alpha=2.0, ratio=0.9, exact=False),
    DGD(step=0.1, mixing=0.25, decay=0.5),
    EXTRA(step=0.1, mixing=0.25),
    WalkProximalGradient(step=0.1, regulariser=ElasticNet(0.1, 0.2), order=(0, 2, 1)),
    TokenGradientDescent(step=0.1, order=RandomWalk(seed=3, choice=2), budget=Gaussian(2.0)),
    IncrementalADMM(penalty=2.0, initial=1.0, gamma=Between((0.9, 0.8, 0.7), (1.1, 1.0, 1.2))),
    WalkADMM(penalty=2.0, exact=False, deviation=0.5),
    ParallelWalkADMM(tokens=2, walk=RandomWalk(seed=4, choice=2)),
    DualPerturbedADMM(penalty=Geometric(1.0, 1.04, cap=9.0), alpha=[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]] * 4),
    PrimalPerturbedADMM(penalty=2.0, alpha=[1.0, 2.0, 3.0, 4.0] * 2, final=7),
    PenaltyPerturbedADMM(penalty=Geometric((1.0, 2.0, 3.0), 1.1), dual_step=0.5, budget=(Pure(0.5), Pure(0.6)) * 4),
    RecycledADMM(penalty=Geometric(1.0, 1.04), gamma=0.2, budget=Gaussian(3.0), noise_on="output"),
    GradientDescent(step=0.1, mixing=0.2, exchanges=2, budget=(Gaussian(1.0), Gaussian(2.0)) * 4),
    OneShotAveraging(mixing=0.2, budget=Pure(1.0)),
    RandomAggregationADMM(penalty=(2.0, 3.0, 4.0), own=(0.1, 0.9), beta=0.3, ball=5.0),
    RandomAggregationGD(step=[0.1, 0.05] * 4, min_max=True, budget=Gaussian(1.0)),
    RandomCoordinateDescent(step=0.1, seed=9, budget=Pure(0.5)),
    SummedDPADMM(method=DPADMM(term=TERM, step=0.2), deviation=0.7, colluders=1, dropouts=0),
    SummedGradientDescent(step=0.1, momentum=0.5, deviation=0.2, colluders=0),
    SummedGradientDescent(step=0.5),
    Averaged(method=GradientDescent(step=0.1, mixing=0.2, budget=Gaussian(2.0)), ticks=5, mixing=0.3),
]
REFUSED = {
    DPADMM(term=TERM, step=0.1): "DPADMM is for one agent with all rows",
    AcceleratedDPADMM(term=TERM, step=0.1): "AcceleratedDPADMM is for one agent with all rows",
}


def federation(folder, method, exchange=None):
    """Of three members, from the file of a run."""
    reserve = reserve_of(method)
    spec = RunSpec(method, 7, HuberHinge(0.5), Graph.complete(3), l2=0.05, radius=64.0, trust=Trust.of(reserve))
    (folder / "run.toml").write_text(spec.to_toml())
    spec = RunSpec.from_toml(folder / "run.toml")
    exchange = exchange or (TOTALS if needs_totals(method) else ROWS)
    identities, agreed = finished_run.agree(folder, finished_run.EXACT)
    agreed = Federation("a run of ours", agreed.members, spec, SCHEMA, exchange)
    (folder / "federation.toml").write_text(agreed.to_toml())
    return identities, Federation.load(folder / "federation.toml")


def test_there_is_a_run_of_every_method():
    assert {type(method) for method in (*RUNS, *REFUSED)} | {SharingADMM} == set(METHODS.values())


@pytest.mark.parametrize("method", RUNS, ids=lambda method: type(method).__name__)
def test_three_agents_do_what_the_simulation_does(tmp_path, method):
    identities, agreed = federation(tmp_path, method)
    finished_run.live(tmp_path, agreed, identities, noise=lambda: tacit.SeededNoise(5))
    done = agreed.setting.simulate(make_parts(SIZES, d=FEATURES), tacit.SeededNoise(5))
    run = finished_run.Finished(tmp_path, agreed, identities)
    models = np.array([run.model(name)["weights"] for name in NAMES])
    if agreed.exchange == ROWS:
        np.testing.assert_array_equal(models, done.run.estimate)
    else:  # a total is a sum of words of fixed point
        np.testing.assert_allclose(models, done.run.estimate, rtol=0, atol=1e-9)
    assert np.abs(models).max() > 0
    certificate = run.certificate()
    assert [str(fault) for fault in examined(certificate, run.model("birch")).faults] == []
    spec = json.loads(json.dumps(agreed.spec.plain()))
    assert certificate["spec"] == run.model("alder")["training"]["spec"] == spec
    statement = run.model("alder")["privacy"]["statement"]
    assert statement.startswith("not private: ")
    assert ("differentially private" in statement) == np.isfinite(agreed.setting.guarantee(1e-5).epsilon)


@pytest.mark.parametrize("method", REFUSED, ids=lambda method: type(method).__name__)
def test_methods_for_one_holder_say_so(tmp_path, method):
    _, agreed = federation(tmp_path, method)
    with pytest.raises(InputError, match=REFUSED[method]):
        _ = agreed.plans


def test_a_linear_constraint_is_refused(tmp_path):
    with pytest.raises(InputError, match="sharing-admm: its agents have variables of their own"):
        federation(tmp_path, SharingADMM.consensus(Graph.complete(3), FEATURES))


def test_sums_hide_rows_of_a_run_of_ones_own(tmp_path):
    method = DualPerturbedADMM(penalty=0.5, alpha=[[1.0, 2.0, 3.0]] * 7)
    identities, agreed = federation(tmp_path, method, SUMS)
    finished_run.live(tmp_path, agreed, identities, noise=lambda: tacit.SeededNoise(5))
    done = agreed.setting.simulate(make_parts(SIZES, d=FEATURES), tacit.SeededNoise(5))
    for name, right in zip(NAMES, done.run.estimate, strict=True):
        weights = json.loads((tmp_path / f"{name}.json").read_text())["weights"]
        np.testing.assert_allclose(weights, right, rtol=0, atol=1e-9)
    with pytest.raises(InputError, match="would reveal its row"):
        replace(agreed, go_on_after=10.0).without(["birch"])
