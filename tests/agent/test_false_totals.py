"""One member of five adds to its partial sum at one tick: nobody loses the model, and every log names the tick."""

import logging

import agent_network
import agent_worker as worker
import numpy as np
import pytest
from agent_worker import NAMES, SEED, D
from conftest import SIZES, make_parts
from false_totals import FalseTotals, added

import tacit
from tacit.agent.certificate.signed_report import verified
from tacit.agent.monitoring.progress import Progress
from tacit.agent.robust_listening import Reading, listened
from tacit.exchange.totals import TotalInbox

identities, network = agent_network.identities, agent_network.network  # fixtures
LIAR = 1
TEN_TIMES = make_parts(sizes=[10 * n for n in SIZES], d=D)


def simulated(net, *ticks):
    """The models of all members, if the total of these ticks is false."""
    setting = net.federation.setting
    public, rounds = setting.facts, setting.rounds
    problem = tacit.Problem(TEN_TIMES, loss=public.loss, scale=public.scale, l2=public.l2, radius=public.radius)
    lie = FalseTotals(added(5), *ticks) if ticks else None
    return tacit.simulate(
        setting.algorithm,
        problem,
        net.federation.graph,
        rounds=rounds,
        noise=tacit.SeededNoise(SEED),
        exchange=lie,
        measure_every=rounds,
    ).estimate


def error(models):
    X, y = (np.concatenate(column) for column in zip(*TEN_TIMES, strict=True))
    return float(np.mean(np.where(X @ models.T > 0, 1.0, -1.0) != y[:, None]))


def test_one_false_sum_at_the_worst_tick_costs_nobody_the_model(network):
    """Real agents; the simulation, whose bits theirs are, says which tick is the worst. Nothing here is random."""
    net = network("totals", parts=TEN_TIMES)
    rounds, honest = net.federation.rounds, error(simulated(net))
    worst = int(np.argmax([error(simulated(net, t)) for t in range(rounds)]))
    with net.together():
        net.start(*(i for i in range(5) if i != LIAR))
        net.start(LIAR, fault=("adds to its sum", worst))
    assert [net.ended(i) for i in range(5)] == [0] * 5, net.log(0)
    np.testing.assert_array_equal(net.models(), simulated(net, worst))
    assert error(net.models()) <= honest + 0.02
    bound = f"{net.federation.total_bounds.largest:.3g}"
    for i, name in enumerate(NAMES):
        warned = [line for line in net.log(i).splitlines() if "the sum of all members has the norm" in line]
        assert len(warned) == 1, net.log(i)
        assert f"tick {worst}: " in warned[0]
        assert f"honest members reach {bound} at most: not used" in warned[0]
        assert f"the sum of all members was beyond its bounds at 1 of {rounds} ticks, and not used" in net.log(i)
        reported = verified(net.folder / f"{name}.report.json", net.federation)["listening"]["moved"]
        assert reported.keys() == {"the sum of all members"}
        assert reported["the sum of all members"]["ticks"] == 1
    assert net.certificate_faults() == []


@pytest.mark.parametrize(
    ("kind", "misled"), [("totals", {0}), pytest.param("totals, ring", {0, 1}, marks=pytest.mark.slow)]
)
def test_a_member_that_tells_another_total_is_seen_while_the_run_goes_on(network, kind, misled):
    """elm is the root at tick 9 and tells one child something else. Those who have heard that, and those who have not,
    see at the next tick that they differ. Nobody can prove who it was, so nobody stops."""
    net, tick = network(kind), 9
    with net.together():
        net.start(0, 1, 2, 3)
        net.start(4, fault=("tells another total", tick))
    assert [net.ended(i) for i in range(5)] == [0] * 5, net.log(0)
    models = net.models()
    for i in range(5):
        others = {j for j in range(5) if (models[j] != models[i]).any()}
        assert others == (misled if i not in misled else set(range(5)) - misled)
        near = set(net.federation.graph.neighbours(i).tolist())
        lines = [line for line in net.log(i).splitlines() if "has heard other sums of all members" in line]
        assert sorted(lines) == sorted(
            next(line for line in lines if f"tick {tick + 1}: {NAMES[j]} has heard" in line) for j in others & near
        )
    assert any(fault.where.endswith("model") for fault in net.certificate_faults())


@pytest.mark.slow
def test_an_honest_run_has_no_such_line_and_the_same_bits(network):
    net = network("totals", parts=TEN_TIMES)
    net.start(*range(5))
    assert [net.ended(i) for i in range(5)] == [0] * 5, net.log(0)
    np.testing.assert_array_equal(net.models(), simulated(net))
    for i, name in enumerate(NAMES):
        assert "the sum of all members" not in net.log(i)
        assert "other sums of all members" not in net.log(i)
        assert verified(net.folder / f"{name}.report.json", net.federation)["listening"]["moved"] == {}


def test_every_case_is_logged_with_its_tick_and_counted(network, identities, caplog):
    net = network("totals")
    participant, progress = worker.participant(net.folder, net.kind, 0, identities, tacit.SecureNoise()), Progress()
    reading, largest = Reading(participant, progress), net.federation.total_bounds.largest
    near = net.federation.graph.neighbours(0).tolist()

    def heard(t, size):
        total = np.full((1, D), size / np.sqrt(D))
        return reading.read(TotalInbox(total, np.array([[5]])), near, np.zeros(D), t).sum()[0]

    with caplog.at_level(logging.WARNING, "tacit"):
        for t, size in enumerate([0.999 * largest, 1.001 * largest, 2.0**17, 0.0, 1.001 * largest]):
            assert np.linalg.norm(heard(t, size)) == pytest.approx(size if size < largest else 0.0)
    lines = [record.getMessage() for record in caplog.records]
    assert [line.split(":")[0] for line in lines] == ["tick 1", "tick 2", "tick 4"]
    assert progress.beyond == 3
    participant.store.commit(0, reading.memory, b"row", participant.events[0])
    assert listened(participant)["moved"]["the sum of all members"]["ticks"] == 3
