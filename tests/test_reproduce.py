"""The papers' experiments, in miniature; and that a claim can fail."""

import csv
import sys
from dataclasses import replace

import numpy as np
import pytest

from tacit import cli
from tacit.algorithms import ConsensusADMM, Geometric, PenaltyPerturbedADMM, RecycledADMM
from tacit.cli.names import PAPERS
from tacit.cli.reproduce import run
from tacit.noise import SeededNoise
from tacit.papers import dynamic_dp, recycled_admm
from tacit.papers.experiment import FULL, QUICK, Claim, Lab, Runs, Setting, Size, claims_page
from tacit.papers.recycled_admm import FIVE
from tacit.simulate import simulate

TINY = Size("tiny", runs=2, rounds=6, train=2500)


@pytest.fixture(scope="module")
def lab():
    return Lab(TINY)


@pytest.mark.parametrize("paper", PAPERS)
def test_every_figure_has_a_picture_its_numbers_and_its_claims(paper, tmp_path, capsys):
    claims = run(paper, list(PAPERS[paper]), TINY, tmp_path / "new" / "folder", "tacit reproduce x")
    for name in PAPERS[paper]:
        stem = tmp_path / "new" / "folder" / f"{paper}-{name}"
        assert stem.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
        with stem.with_suffix(".csv").open(encoding="utf-8") as file:
            points = list(csv.DictReader(file))
        assert points
        for point in points:
            low, mean, high = (float(point[key]) for key in ("min", "mean", "max"))
            assert low * (1 - 1e-5) - 1e-12 <= mean <= high * (1 + 1e-5) + 1e-12 or low < 0
            assert int(point["runs"]) in (1, 2)
        assert max(int(point["runs"]) for point in points) == (1 if name == "fig1" else 2)  # no noise
        number = name.removeprefix("fig")
        assert any(claim.where.startswith((f"Fig. {number}", "(28)")) for claim in claims)
    page = (tmp_path / "new" / "folder" / f"{paper}-claims.md").read_text(encoding="utf-8")
    assert "tiny: 2 runs of 6 iterations" in page.splitlines()[0]
    assert page.count("\n| ") == len(claims) + 2
    out = capsys.readouterr().out
    assert out.count("hold") >= len(claims)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["radmm"], "paper must be one of recycled-admm, dynamic-dp, local-dp; not 'radmm'"),
        (["dynamic-dp", "fig1"], "figure of dynamic-dp must be one of fig3, fig4, fig5; not 'fig1'"),
        (["dynamic-dp", "--out", "file"], "cannot be made"),
        (["dynamic-dp", "fig3", "--out", "taken"], "it is a folder"),
        (["dynamic-dp", "--data-dir", "nowhere"], "--data-dir nowhere is not a folder"),
    ],
)
def test_errors_are_one_line_and_come_before_the_work(args, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    (tmp_path / "taken" / "dynamic-dp-fig3.csv").mkdir(parents=True)
    monkeypatch.setattr(sys, "argv", ["tacit", "reproduce", *args])
    monkeypatch.setattr(sys.modules["tacit.cli.reproduce"], "Lab", None)  # nothing has begun
    with pytest.raises(SystemExit) as stop:
        cli.main()
    assert stop.value.code == 2
    err = capsys.readouterr().err
    assert err.startswith("tacit: error: ")
    assert message in err
    assert err.count("\n") == 1


class Told(Lab):
    """A lab whose experiments come out as somebody says: `loss(algorithm)` in the mean, one more and one less."""

    def __init__(self, loss):
        super().__init__(TINY)
        self.loss = loss

    def runs(self, algorithm, setting, rounds):
        value = 2.0 if isinstance(algorithm, ConsensusADMM) else self.loss(algorithm)
        curve = np.array([[value - 0.5], [value + 0.5]]) * np.ones(rounds + 1)
        return Runs(curve, curve, np.zeros((rounds + 1, 104)))


def test_a_claim_follows_what_was_measured():
    better_with_growth = Told(lambda a: 10 - a.penalty.ratio * (2 if a.alpha == 1 else 1))
    worse_with_growth = Told(lambda a: 10 + a.penalty.ratio * (2 if a.alpha == 1 else 1))
    holds = {c.text: c.holds for c in recycled_admm.fig4(better_with_growth).claims}
    fails = {c.text: c.holds for c in recycled_admm.fig4(worse_with_growth).claims}
    accuracy = [text for text in holds if "better the accuracy" in text or "improvement" in text]
    assert len(accuracy) == 3
    assert all(holds[text] for text in accuracy)
    assert not any(fails[text] for text in accuracy)


@pytest.mark.parametrize(("dual_is_better", "verdict"), [(True, "holds"), (False, "does not hold")])
def test_dvp_against_pvp(dual_is_better, verdict):
    lab = Told(lambda a: (3 if type(a).__name__.startswith("Dual") == dual_is_better else 5) - a.alpha)
    robust = [c for c in dynamic_dp.fig3(lab).claims if "more robust" in c.text]
    assert [c.verdict for c in robust] == [verdict] * 2


def test_the_page_of_claims_survives_any_text():
    page = claims_page([Claim("here", "paper", "|x| < 1", "2", False)], "title", "command")
    assert page.splitlines()[-1] == r"| here | paper | \|x\| < 1 | 2 | **does not hold** |"


@pytest.mark.parametrize("target", [10.0, 30.0])
def test_matched_totals_are_the_target_for_every_agent(lab, target):
    method = PenaltyPerturbedADMM(penalty=Geometric(1.0, 1.02))
    alphas = recycled_admm.matched(lab, lambda a: replace(method, alpha=a), target, 8)
    each = replace(method, alpha=np.tile(alphas, (8, 1)))
    np.testing.assert_allclose(lab.plan(each, FIVE, 8).paper, target)
    one = replace(method, alpha=float(alphas.min()))
    assert lab.spending(one, FIVE, 8)[-1] == pytest.approx(target)  # the agent that pays most


@pytest.mark.parametrize("growth", [1.0, 1.3])
def test_the_stopped_control_has_the_noise_of_recycled_admm(lab, growth):
    """Its first solve is R-ADMM's; and K of them cost what 2K iterations of R-ADMM cost."""
    recycled = RecycledADMM(penalty=Geometric(1.0, growth), alpha=0.8)
    control = recycled_admm.with_noise_of(lab, recycled, 5)
    problem, graph = lab.problem(FIVE), lab.graph()
    first = [simulate(a, problem, graph, rounds=1, noise=SeededNoise(3)).estimate for a in (recycled, control)]
    np.testing.assert_allclose(first[0], first[1], rtol=0, atol=1e-6)
    assert np.linalg.norm(first[0]) > 1
    a, b = lab.plan(recycled, FIVE, 10).epsilon(1e-5), lab.plan(control, FIVE, 5).epsilon(1e-5)
    assert a == pytest.approx(b, rel=1e-9)


def test_own_dual_steps_lead_to_the_weighted_optimum():
    lab = Lab(Size("small", runs=1, rounds=1, train=100))
    eta = recycled_admm.ETA_HAT
    point = recycled_admm._weighted_optimum(lab, eta)
    gradients = lab.problem(FIVE).gradient(point)
    assert np.linalg.norm((gradients / eta[:, None]).sum(axis=0)) < 1e-6
    assert np.linalg.norm(gradients.sum(axis=0)) > 1e-3


def test_runs_are_remembered_and_told_apart(lab):
    def losses(alpha):
        return lab.runs(PenaltyPerturbedADMM(alpha=np.full((1, 5), alpha)), Setting(l2=0.1), 1).loss

    assert losses(2.0) is losses(2.0)
    assert not np.array_equal(losses(2.0), losses(2.0 + 1e-12))
    assert FULL.quick is False
    assert QUICK.quick is True
