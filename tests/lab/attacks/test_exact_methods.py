"""The methods without privacy: their gradients, Hessians, records, labels and members, from messages alone."""

import csv
import json
import warnings

import numpy as np
import pytest

from tacit.algorithms import DGD, EXTRA, CensoredADMM, ConsensusADMM, IncrementalADMM, WalkADMM
from tacit.core.graph import Graph
from tacit.core.losses import Logistic, PseudoHuber, Squared
from tacit.core.problem import Problem
from tacit.errors import InputError
from tacit.lab.attacks import Attacked, Gradients, gradients, leak, overhear
from tacit.lab.attacks.membership import auc, labels, leverage, moments, second_moment
from tacit.lab.attacks.reconstruction import of_logistic, of_squared, quadratic, row_errors

N, D, L2 = 5, 6, 3e-5
LOSSES = {"ridge": Squared(), "logistic": Logistic()}


def drawn(rows, loss, seed=0):
    """Agents with so many rows, the last column of ones; and 200 further rows."""
    rng = np.random.default_rng(seed)
    X = np.c_[rng.normal(size=(N * rows + 200, D - 1)) / 2, np.ones(N * rows + 200)]
    z = X[:, :-1] @ rng.normal(size=D - 1) + rng.normal(size=len(X)) / 2
    y = np.where(z > 0, 1.0, -1.0) if loss == "logistic" else z
    parts = [(X[k * rows : (k + 1) * rows], y[k * rows : (k + 1) * rows]) for k in range(N)]
    problem = Problem(parts, loss=LOSSES[loss], l2=L2)
    return Attacked(problem, parts, loss == "logistic", D - 1, D - 1, np.c_[X, y][N * rows :])


def methods(problem, graph):
    step = 0.5 / problem.smoothness().max()
    return {
        "admm": ConsensusADMM(penalty=0.05),
        "coca": CensoredADMM(penalty=0.05, alpha=1.0, ratio=0.95),
        "dgd": DGD(step=step, mixing=graph.mixing),
        "decaying dgd": DGD(step=step, mixing=graph.mixing, decay=0.5),
        "extra": EXTRA(step=step, mixing=graph.mixing),
        "w-admm": WalkADMM(penalty=0.5),
        "first-order w-admm": WalkADMM(penalty=5.0, exact=False),
        "i-admm": IncrementalADMM(penalty=0.5),
    }


NAMES = list(methods(drawn(1, "ridge").problem, Graph.ring(N)))


def listened(name, attacked, graph, coalition=None, rounds=40):
    method = methods(attacked.problem, graph)[name]
    ticks = rounds * (N if isinstance(method, IncrementalADMM) else 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # penalties below L
        heard = overhear(method, attacked.problem, graph, ticks)
    return gradients(method, heard, graph, coalition)


def off(attacked, known, i):
    own = attacked.problem.take([i])
    return max(np.abs(own.gradient(x[None])[0] - g).max() for x, g in zip(*known, strict=True))


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("name", NAMES)
def test_messages_tell_every_gradient(name, loss):
    attacked, graph = drawn(3, loss), Graph.random_with_cycle(N, 7, seed=1)
    found = listened(name, attacked, graph)
    assert len(found) == N
    for i, known in enumerate(found):
        assert len(known.points) >= (5 if name == "coca" else 20)
        assert off(attacked, known, i) < 1e-8
        assert np.linalg.norm(known.values, axis=1).max() > 0.1
        wrong = known._replace(values=known.values + 2e-8)  # the check would see an error of that size
        assert off(attacked, wrong, i) > 1e-8


def test_silence_is_left_out():
    attacked, graph = drawn(3, "ridge"), Graph.ring(N)
    assert min(len(each.points) for each in listened("coca", attacked, graph)) < 40
    assert {len(each.points) for each in listened("admm", attacked, graph)} == {40}


def exposed(graph, coalition, victim):
    """Whether agents that pool what they hear know the rows of the victim and of all its neighbours."""
    known = set(coalition).union(*(graph.neighbours(i).tolist() for i in coalition))
    return {victim, *graph.neighbours(victim).tolist()} <= known


@pytest.mark.parametrize("name", ["admm", "coca", "dgd", "extra"])
def test_one_neighbour_knows_the_first_gradient_and_two_on_a_ring_all(name):
    attacked, graph = drawn(3, "logistic"), Graph.ring(N)
    everything = listened(name, attacked, graph)
    assert not exposed(graph, [0], 1)
    alone = listened(name, attacked, graph, [0])[1]
    assert len(alone.points) == 1
    assert off(attacked, alone, 1) < 1e-8
    assert exposed(graph, [0, 2], 1)
    both = listened(name, attacked, graph, [0, 2])
    for have, all_heard in zip(both[1], everything[1], strict=True):
        np.testing.assert_array_equal(have, all_heard)
    assert not exposed(Graph.ring(8), [0, 2], 3)


def test_one_neighbour_is_enough_for_a_leaf_and_on_a_complete_graph():
    attacked = drawn(3, "logistic")
    for graph, victim, neighbour in ((Graph.path(N), 0, 1), (Graph.complete(N), 0, 3)):
        assert exposed(graph, [neighbour], victim)
        known = listened("admm", attacked, graph, [neighbour])[victim]
        assert len(known.points) == 40
        assert off(attacked, known, victim) < 1e-8


@pytest.mark.parametrize("name", ["w-admm", "i-admm"])
def test_all_neighbours_hear_every_token_of_an_agent(name):
    attacked, graph = drawn(3, "ridge"), Graph.ring(N)
    everything = listened(name, attacked, graph)
    np.testing.assert_array_equal(listened(name, attacked, graph, [0, 2])[1].values, everything[1].values)
    assert len(listened(name, attacked, graph, [0])[1].points) < len(everything[1].points) / 4


@pytest.mark.parametrize("rows", [1, 2, 4, 20])
@pytest.mark.parametrize("name", ["admm", "extra", "w-admm"])
def test_hessians_of_least_squares(name, rows):
    """Also with fewer directions visited than there are, if the rows are fewer."""
    attacked = drawn(rows, "ridge")
    for known, (X, y) in zip(listened(name, attacked, Graph.ring(N)), attacked.parts, strict=True):
        found = quadratic(known.data(L2), rows)
        np.testing.assert_allclose(found.curvature, X.T @ X / rows, atol=1e-6)
        np.testing.assert_allclose(found.slope, -X.T @ y / rows, atol=1e-6)


@pytest.mark.parametrize("rows", [1, 2])
def test_rows_of_least_squares(rows):
    attacked = drawn(rows, "ridge")
    for known, (X, y) in zip(listened("admm", attacked, Graph.ring(N)), attacked.parts, strict=True):
        found = of_squared(quadratic(known.data(L2), rows), rows, 1 / rows, ones=D - 1)
        assert row_errors(np.c_[found.rows, found.labels], np.c_[X, y]).max() < 1e-8


def test_three_rows_of_least_squares_with_two_labels():
    attacked = drawn(3, "logistic")._replace()
    squared = Problem(attacked.parts, loss=Squared(), l2=L2)
    known = listened("admm", attacked._replace(problem=squared), Graph.ring(N))
    told = 0
    for each, (X, y) in zip(known, attacked.parts, strict=True):
        found = of_squared(quadratic(each.data(L2), 3), 3, 1 / 3, ones=D - 1, signs=True)
        assert (found is None) == (abs(y.sum()) == 3)  # with labels that are all the same, a rotation is left over
        if found is not None:
            told += 1
            assert row_errors(np.c_[found.rows, found.labels], np.c_[X, y]).max() < 1e-7
    assert told >= 2


def test_what_least_squares_do_not_determine():
    """A rotation of the rows has the same gradients everywhere: no attack can tell."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(3, D)), rng.normal(size=3)
    Q = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    points = rng.normal(size=(20, D))
    one, other = (Problem([(A, b)] * 20, loss=Squared()).gradient(points) for A, b in ((X, y), (Q @ X, Q @ y)))
    np.testing.assert_allclose(one, other, atol=1e-12)
    assert row_errors(Q @ X, X).max() > 0.3
    assert of_squared(quadratic(Gradients(points, one), 3), 3, 1 / 3) is None


@pytest.mark.parametrize("name", ["admm", "coca", "dgd", "extra", "w-admm"])
@pytest.mark.parametrize("rows", [1, 3])
def test_rows_of_the_logistic_loss(name, rows):
    attacked = drawn(rows, "logistic")
    known = listened(name, attacked, Graph.ring(N))
    for i in (0, 1):
        X, y = attacked.parts[i]
        found, missed = of_logistic(known[i].data(L2), rows, 1 / rows, positive=D - 1)
        assert missed < 1e-5
        assert row_errors(found.rows, X).max() < 1e-5
        assert row_errors(np.c_[found.rows, found.labels], np.c_[X, y]).max() < 1e-5


def test_without_a_column_of_known_sign_label_and_row_are_known_as_a_product():
    attacked = drawn(2, "logistic")
    X, y = attacked.parts[0]
    found, _ = of_logistic(listened("dgd", attacked, Graph.ring(N))[0].data(L2), 2, 1 / 2)
    assert found.labels is None
    assert row_errors(found.signed, y[:, None] * X).max() < 1e-8


@pytest.mark.parametrize("loss", LOSSES)
def test_one_gradient_tells_labels_of_known_features(loss):
    """Of one neighbour: one gradient is X'y, and more gradients say no more of the labels."""
    attacked = drawn(4, loss)
    X, y = attacked.parts[1]
    known = listened("admm", attacked, Graph.ring(N), [0])[1]
    assert len(known.points) == 1
    cross = moments(known.data(L2), X, 1 / 4, loss == "logistic")
    np.testing.assert_allclose(cross, X.T @ y, atol=1e-6)
    np.testing.assert_allclose(labels(X, cross, loss == "logistic"), y, atol=1e-5)


def test_signs_have_one_solution_for_more_rows_than_equations():
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(12, 10)), rng.choice([-1.0, 1.0], size=12)
    np.testing.assert_array_equal(labels(X, X.T @ y, signs=True), y)
    assert (labels(X, X.T @ y, signs=False) - y).any()
    many = rng.normal(size=(60, 10))
    y = rng.choice([-1.0, 1.0], size=60)
    assert (labels(many, many.T @ y, signs=True) != y).any()


@pytest.mark.parametrize("loss", LOSSES)
def test_members_of_a_small_agent_are_known_for_certain(loss):
    attacked = drawn(3, loss)
    for known, (X, _) in zip(listened("admm", attacked, Graph.ring(N)), attacked.parts, strict=True):
        moment = second_moment(known.data(L2), 3, 1 / 3, loss == "logistic")
        inside, outside = leverage(moment, X, 3), leverage(moment, attacked.others[:, :-1], 3)
        assert auc(inside, outside) == 1.0
        if loss == "ridge":
            np.testing.assert_allclose(inside, 1.0, atol=1e-6)


def test_members_of_a_large_agent_are_hardly_known():
    attacked = drawn(60, "ridge")
    known = listened("admm", attacked, Graph.ring(N))[0]
    found = leak(known, attacked, 0)
    assert 0.4 < found.membership < 0.7
    assert np.isnan(found.records)
    assert found.curvature < 1e-6


def test_what_is_not_heard_is_not_known():
    attacked = drawn(3, "logistic")
    found = leak(Gradients(np.empty((0, D)), np.empty((0, D))), attacked, 0)
    assert found.heard == 0
    assert all(np.isnan(v) for v in (found.gradients, found.records, found.labels, found.membership))
    other = Problem(attacked.parts, loss=PseudoHuber())
    with pytest.raises(InputError, match="for Logistic\\(\\) and Squared\\(\\)"):
        leak(listened("admm", attacked, Graph.ring(N))[0], attacked._replace(problem=other), 0)


@pytest.mark.parametrize("loss", LOSSES)
def test_a_guess_without_any_message_is_the_mean_record(loss):
    """Where all records are alike, it finds them: what an attack finds there counts for nothing."""
    attacked = drawn(3, loss)
    X, y = attacked.parts[0]
    alike = np.tile(X[0], (3, 1)), np.full(3, y[0])
    same = attacked._replace(
        problem=Problem([alike] * N, loss=LOSSES[loss], l2=L2),
        parts=[alike] * N,
        others=np.tile(np.r_[X[0], y[0]], (20, 1)),
    )
    found = leak(Gradients(np.empty((0, D)), np.empty((0, D))), same, 0)
    assert found.guessed_records < 1e-12
    assert found.guessed_labels < 1e-12


@pytest.mark.parametrize("method", ["admm", "coca", "w-admm", "i-admm", "dgd", "extra"])
def test_tacit_attack_on_an_exact_method(tacit, method):
    code, out, _ = tacit("attack", method, "--agents", "3", "--rows", "2", "--json")
    assert code == 0
    found = json.loads(out)
    assert found["loss"] == "logistic"
    assert max(each["records"] for each in found["agents"]) < 1e-4


def test_tacit_attack_draws_and_writes_records(tacit, tmp_path):
    code, out, _ = tacit("attack", "dgd", "--who", "neighbour", "--rows", "1", "--out", str(tmp_path / "a"))
    assert code == 0
    assert "One neighbour of an agent has exact gradients of 5 of 5 agents (in the median 1 each). All records" in out
    with (tmp_path / "a" / "attack.csv").open(encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    assert len(lines) == 5 * 8
    assert all(abs(float(line["true"]) - float(line["reconstructed"])) < 1e-6 for line in lines)
    assert (tmp_path / "a" / "attack.png").read_bytes().startswith(b"\x89PNG")


def test_tacit_attack_on_records_of_ones_own(tacit, tmp_path):
    rng = np.random.default_rng(0)
    path = tmp_path / "public.csv"
    with path.open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["age", "dose", "ward", "ill"])
        for _ in range(60):
            ward, ill = rng.choice(["a", "b", "c"]), rng.choice(["no", "yes"])
            out.writerow([rng.integers(20, 90), round(rng.uniform(0, 9), 2), ward, ill])
    own = ["--data", str(path), "--rows", "2", "--json"]
    code, out, _ = tacit("attack", "admm", *own, "--label", "ill", "--agents", "4")
    assert code == 0
    found = json.loads(out)
    assert len(found["agents"]) == 4
    assert np.median([each["records"] for each in found["agents"]]) < 1e-4
    own[3] = "1"
    code, out, _ = tacit("attack", "dgd", *own, "--label", "dose", "--site", "ward")
    assert code == 0
    found = json.loads(out)
    assert found["loss"] == "ridge"
    assert max(each["records"] for each in found["agents"]) < 1e-6
    code, _, err = tacit("attack", "dgd", *own, "--label", "dose", "--loss", "logistic")
    assert code == 2
    assert "is a number: take --loss ridge" in err


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["admm", "--who", "spy"], "who must be one of overheard, neighbours, neighbour"),
        (["pi-admm1", "--who", "neighbour"], "of pi-admm1, who must be one of overheard, neighbours"),
        (["pi-admm1", "--rows", "3"], "--rows is for the methods admm"),
        (["admm", "--ticks", "300"], "--ticks is for the token methods"),
        (["admm", "--rows", "0"], "--rows must be"),
        (["admm", "--rounds", "1"], "--rounds must be"),
        (["dgd", "--penalty", "1"], "leave out --penalty"),
        (["admm", "--label", "income"], "--label is about a file of records"),
        (["admm", "--loss", "hinge"], "loss must be one of ridge, logistic"),
        (["admm", "--agent", "6"], "--agent must be between 1 and 5, not 6"),
    ],
)
def test_errors_of_attacks_on_exact_methods_are_one_line(tacit, args, message):
    code, _, err = tacit("attack", *args)
    assert code == 2
    assert message in err.splitlines()[-1]
    assert err.splitlines()[-1].startswith("tacit: error: ")
