"""Every method can be written as data, read back as the same method, and refused where the data is wrong."""

import inspect
import json
import math
import tomllib
from dataclasses import dataclass, fields

import numpy as np
import pytest

import tacit.algorithms
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
from tacit.composite import Term, constrained, generalised_lasso, graph_guided, lasso, public_graph
from tacit.composite.prox import L1, Box, ElasticNet, GroupL1
from tacit.core.losses import HuberHinge, Logistic, PseudoHuber, Squared
from tacit.core.multinomial import Multinomial
from tacit.errors import InputError
from tacit.privacy.events import Gaussian, Pure
from tacit.run.parts import KINDS, LOSSES, METHODS, read, register, written
from tacit.run.spec import in_toml

TERM = Term([[1.0, -1.0, 0.0], [0.0, 1.0, -1.0]], L1(0.5), c=[1.0, 0.0])
W = [[0.0, 1.0, 0.0], [1.0, 0.0, -1.0], [0.0, -1.0, 0.0]]
GUIDED = {"kind": "graph-guided", "columns": 3, "pairs": [[0, 1], [1, 2, -1.0]], "strength": 0.1}
EXAMPLES = [
    ConsensusADMM(penalty=0.3),
    CensoredADMM(alpha=2.0, ratio=0.9, exact=False),
    DGD(step=0.1, mixing=0.25, decay=0.5),
    EXTRA(step=0.1, mixing=0.25),
    WalkProximalGradient(step=0.1, regulariser=ElasticNet(0.1, 0.2), order=(0, 2, 1)),
    TokenGradientDescent(step=0.1, order=RandomWalk(seed=3, choice=2), budget=Gaussian(2.0)),
    IncrementalADMM(penalty=2.0, initial=1.0, gamma=Between((0.9, 0.8), (1.1, 1.0))),
    WalkADMM(penalty=2.0, exact=False, deviation=0.5, row_norm=math.inf),
    ParallelWalkADMM(tokens=3, walk=RandomWalk(seed=4, choice=2)),
    DualPerturbedADMM(penalty=Geometric(1.0, 1.04, cap=9.0), alpha=[1.0, 2.0, 3.0]),
    PrimalPerturbedADMM(penalty=2.0, alpha=[[1.0, 2.0], [3.0, 4.0]], final=7),
    PenaltyPerturbedADMM(penalty=Geometric((1.0, 2.0), (1.0, 1.1)), budget=(Pure(0.1), Pure(0.2))),
    RecycledADMM(penalty=Geometric(1.0, 1.04), gamma=0.2, budget=Gaussian(3.0), noise_on="output"),
    GradientDescent(step=0.1, mixing=0.2, exchanges=2, budget=(Gaussian(1.0), Gaussian(2.0))),
    OneShotAveraging(mixing=0.2, budget=Pure(1.0)),
    RandomAggregationADMM(penalty=(1.0, 2.0), own=(0.1, 0.9), beta=0.3, ball=5.0),
    RandomAggregationGD(step=[0.1, 0.05], min_max=True, budget=Gaussian(1.0)),
    RandomCoordinateDescent(step=0.1, seed=9, budget=Pure(0.5)),
    DPADMM(term=TERM, step=0.1, budget=Gaussian(1.0), noise_schedule=Geometric(1.0, 0.9)),
    AcceleratedDPADMM(term=TERM, restart=False, decrease=0.5),
    SummedDPADMM(method=DPADMM(term=TERM, step=0.2), deviation=0.7, colluders=2, dropouts=1),
    SummedGradientDescent(step=0.1, momentum=0.5, deviation=0.2, colluders=0),
    SharingADMM(A=np.ones((3, 2, 2)), c=np.zeros(2), penalty=1.5, rho=(1.0, 2.0)),
    Averaged(method=GradientDescent(step=0.1, mixing=0.2, budget=Gaussian(2.0)), ticks=5, mixing=0.3),
]


def in_a_file(plain):
    """As a file carries it."""
    return tomllib.loads(f"part = {in_toml(plain)}")["part"]


def test_there_is_an_example_of_every_method():
    classes = {
        each
        for each in (getattr(tacit.algorithms, name) for name in tacit.algorithms.__all__)
        if inspect.isclass(each) and hasattr(each, "speak") and each is not tacit.algorithms.Algorithm
    }
    assert classes == set(METHODS.values()) == {type(each) for each in EXAMPLES}
    assert len(KINDS) == len(set(KINDS.values()))  # one name for one thing


@pytest.mark.parametrize("method", EXAMPLES, ids=lambda method: type(method).__name__)
def test_a_method_comes_back_from_a_file(method):
    plain = written(method)
    again = read(in_a_file(plain))
    assert type(again) is type(method)
    assert written(again) == plain
    assert json.loads(json.dumps(plain)) == plain
    for field in fields(method):
        before, after = getattr(method, field.name), getattr(again, field.name)
        if isinstance(before, Term):
            assert before.digest == after.digest
        elif isinstance(before, np.ndarray):
            np.testing.assert_array_equal(before, after)
            assert isinstance(after, np.ndarray)
        elif not isinstance(before, DPADMM):
            assert before == after


@pytest.mark.parametrize(
    "loss",
    [Logistic(), Logistic(0.5, (1.0, 2.0)), Squared(), PseudoHuber(0.25), HuberHinge(0.5), Multinomial(3)],
    ids=repr,
)
def test_a_loss_comes_back_from_a_file(loss):
    assert read(in_a_file(written(loss)), LOSSES, "the loss") == loss


@pytest.mark.parametrize("g", [L1(0.5), Box(-1.0, 2.0), GroupL1(0.1, (2, 1, -1)), Box(upper=3.0)], ids=repr)
def test_a_term_comes_back_from_a_file(g):
    term = Term([[1.0, -1.0], [0.5, 0.0], [0.0, 3.0]], g)
    again = read(in_a_file(written(term)))
    assert (again.digest, again.g) == (term.digest, term.g)


@pytest.mark.parametrize(
    ("short", "term"),
    [
        ({"kind": "lasso", "dimension": 3, "strength": 1}, lasso(3, 1.0)),
        ({"kind": "generalised-lasso", "shape": 4, "strength": 0.5}, generalised_lasso(4, 0.5)),
        ({"kind": "generalised-lasso", "shape": [2, 3], "strength": 0.5}, generalised_lasso((2, 3), 0.5)),
        (GUIDED, graph_guided(public_graph(W), 0.1)),
        (GUIDED | {"sparsity": 0, "as_pattern": True}, graph_guided(public_graph(W), 0.1, sparsity=0, as_pattern=True)),
        (
            {"kind": "constrained", "A": [[1, 2]], "B": [[2]], "c": [4], "g": {"kind": "l1", "strength": 1}},
            constrained([[1.0, 2.0]], [[2.0]], [4.0], L1(1.0)),
        ),
    ],
    ids=lambda each: each["kind"] if isinstance(each, dict) else "",
)
def test_a_term_may_be_written_shorter(short, term):
    """By the name of what makes it; it is the same term, and is written with its matrix."""
    again = read(in_a_file(short))
    assert again.digest == term.digest
    assert written(again) == written(term)
    assert read(written(again)).digest == term.digest


@pytest.mark.parametrize("bound", ["inf", math.inf])
def test_no_bound_is_not_the_usual_bound(bound):
    """What is infinite, and is not so by default, is said: a bound of 1 would have claimed a cost."""
    method = IncrementalADMM(deviation=0.1, row_norm=math.inf)
    assert written(method)["row_norm"] == "inf"
    assert read({"kind": "i-admm", "deviation": 0.1, "row_norm": bound}) == method
    assert "upper" not in written(Box(0.0))


@pytest.mark.parametrize(
    ("plain", "complaint"),
    [
        ({"kind": "os.system"}, "the kind of a part is one of"),
        ({}, "the kind of a part is one of"),
        ({"kind": ["admm"]}, "the kind of a part is one of"),
        ({"kind": "admm", "penalty": -1.0}, "penalty must be"),
        ({"kind": "admm", "penalty": "much"}, "penalty of admm is not a text"),
        ({"kind": "dvp", "penalty": "0.1"}, "penalty of dvp is not a text: a number has no quotation marks"),
        ({"kind": "dvp", "penalty": ["0.1", "0.2"]}, "penalty of dvp is not a text"),
        ({"kind": "dvp", "penalty": {"kind": "geometric", "first": "1", "ratio": 2.0}}, "positive, finite first"),
        ({"kind": "dvp", "penalty": True}, "penalty of dvp is not true or false, but a number"),
        ({"kind": "pvp", "as_printed": "no"}, "as_printed of pvp is true or false, not 'no'"),
        ({"kind": "pvp", "as_printed": 1}, "as_printed of pvp is true or false, not 1"),
        ({"kind": "pvpp"}, "not 'pvpp': did you mean 'pvp'"),
        ({"kind": "huber", "weights": "balanced"}, "weights of huber is not a text"),
        ({"kind": "admm", "penalty": float("nan")}, "not finite"),
        ({"kind": "admm", "speed": 1.0}, "admm has no 'speed': it has penalty"),
        ({"kind": "dgd", "step": 0.1}, "dgd needs mixing"),
        ({"kind": "r-admm", "penalty": {"kind": "geometric", "first": 1.0}}, "geometric needs ratio"),
        ({"kind": "r-admm", "penalty": {"kind": "admm"}}, "penalty must be"),
        ({"kind": "averaged", "method": 3, "ticks": 1, "mixing": 0.1}, "method of averaged is a table"),
        ({"kind": "averaged", "method": {"kind": "l1"}, "ticks": 1, "mixing": 0.1}, "is one of admm, .* wpg; not 'l1'"),
        ({"kind": "term", "columns": 2, "rows": [[[2, 1.0]]], "g": {"kind": "l1", "strength": 1.0}}, "a column that"),
        (
            {"kind": "term", "columns": 2, "rows": [[[0, "x"]]], "g": {"kind": "l1", "strength": 1.0}},
            "rows of term is not",
        ),
        ({"kind": "term", "columns": 2, "rows": [[[0]]], "g": {"kind": "l1", "strength": 1.0}}, "lists of pairs"),
        ({"kind": "term", "columns": 10**12, "rows": [], "g": {"kind": "l1", "strength": 1.0}}, "a term has 1 to"),
        ({"kind": "term", "rows": []}, "term needs columns, g"),
        ({"kind": "term", "columns": 1, "rows": [[[0, 1e308]]], "g": {"kind": "l1", "strength": 1.0}}, "its square is"),
        (
            {"kind": "dp-accadmm", "term": {"kind": "lasso", "dimension": 2, "strength": 1.0}, "restart": []},
            "true or f",
        ),
        ({"kind": "squared", "offset": 0.0}, "squared has no 'offset': it has no parameters"),
        ({"kind": "lasso", "dimension": 10**12, "strength": 1.0}, "a term has 1 to"),
        ({"kind": "lasso", "dimension": 3, "strength": "much"}, "strength of lasso is not a text"),
        ({"kind": "generalised-lasso", "shape": [10**6, 10**6], "strength": 1.0}, "a term has 1 to"),
        (GUIDED | {"pairs": [[0, 3]]}, "a column that it does not have"),
        (GUIDED | {"pairs": [[0, 0]]}, "a pair is two columns"),
        (GUIDED | {"pairs": [[0, 1], [1, 0]]}, "each pair is named once"),
        (GUIDED | {"pairs": [[0.5, 1]]}, "a column that it does not have"),
        (GUIDED | {"pairs": [0, 1]}, "cannot be made of these values"),
        (
            {"kind": "constrained", "A": [[1.0]], "B": [[0.0]], "c": [0.0], "g": {"kind": "l1", "strength": 1.0}},
            "take B with independent columns",
        ),
        ({"kind": "i-admm", "row_norm": "wide"}, "row_norm of i-admm is not a text"),
        ({"kind": "i-admm", "exact": "false"}, "exact of i-admm is"),
        ({"kind": "i-admm", "penalty": "inf"}, "penalty must be"),
        (None, "is a number, a text, a list or a table"),
    ],
    ids=str,
)
def test_what_is_wrong_is_refused_in_one_line(plain, complaint):
    with pytest.raises(InputError, match=complaint) as refused:
        read(plain)
    assert "\n" not in str(refused.value)


def test_what_is_not_a_method_gets_no_name():
    @dataclass
    class Mutable:
        def speak(self): ...

    for name, kind, complaint in [
        ("Mine", tacit.algorithms.DGD, "lower-case letters"),
        ("admm", tacit.algorithms.DGD, "is the name of another method"),
        ("mine", Pure(1.0), "needs the class of a method"),
        ("mine", Pure, "needs the class of a method"),
        ("mine", Mutable, r"write @dataclass\(frozen=True\)"),
    ]:
        with pytest.raises(InputError, match=complaint):
            register(name, kind)
    assert "mine" not in METHODS
    assert METHODS["admm"] is tacit.algorithms.ConsensusADMM


def test_a_file_cannot_nest_for_ever():
    plain = {"kind": "l1", "strength": 1.0}
    for _ in range(50):
        plain = [plain]
    with pytest.raises(InputError, match="nested too deeply"):
        read(plain)


def test_what_has_no_data_form_is_not_written():
    with pytest.raises(InputError, match="a schedule that is a function cannot be written"):
        written(RecycledADMM(penalty=lambda k: 1.0 + k))

    class Mine:
        """A method of one's own."""

    with pytest.raises(InputError, match="a Mine cannot be written"):
        written(Mine())
    from tacit.privacy.events import Pure as Paid

    with pytest.raises(InputError, match="made from records cannot be written"):
        written(Term([[1.0]], L1(1.0), cost=Paid(0.1)))
