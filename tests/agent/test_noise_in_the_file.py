"""The federation file carries the run with its calibrated noise: members do not search for it, and refuse one that
spends more."""

import json
import re
from dataclasses import fields, replace

import agent_network
import agent_worker as worker
import numpy as np
import pytest
from conftest import SIZES
from ports import free_ports

from tacit.agent.federation import Federation
from tacit.algorithms import (
    DPADMM,
    ConsensusADMM,
    DualPerturbedADMM,
    PenaltyPerturbedADMM,
    SharingADMM,
    SummedDPADMM,
    SummedGradientDescent,
)
from tacit.composite import lasso
from tacit.core.graph import Graph
from tacit.core.losses import Logistic
from tacit.core.multinomial import Multinomial
from tacit.errors import InputError, TacitError
from tacit.privacy.events import Gaussian
from tacit.run import recipes
from tacit.run.budget import Budget
from tacit.run.spec import RunSpec
from tacit.run.trust import Trust

identities = agent_network.identities  # a fixture


@pytest.fixture(scope="module")
def made(identities, tmp_path_factory):
    return lambda kind: worker.federation(tmp_path_factory.mktemp("file"), kind, free_ports(5), list(SIZES), identities)


@pytest.fixture(scope="module", params=["going on, private", "totals"])
def written(request, made):
    return made(request.param)


@pytest.fixture(scope="module")
def own(made):
    """A run that no recipe has."""
    return made("noise by node and step")


def edited(federation, old, new):
    text, count = re.subn(old, new, federation.to_toml(), flags=re.M)
    assert count
    return Federation.from_toml(text)


def noisier(federation, times):
    """The same with so many times the noise."""
    method = federation.spec.method
    if isinstance(method, SummedGradientDescent):
        return replace(method, deviation=times * method.deviation)
    inner = replace(method.method, budget=Gaussian(times * method.method.budget.multiplier))
    return replace(method, method=inner)


def test_a_member_takes_the_noise_of_the_file(written, monkeypatch):
    """It has the same setting as whoever wrote the file, to the last bit, and has searched for nothing."""
    monkeypatch.setattr(recipes, "largest_budget", None)
    monkeypatch.setattr(recipes, "_CALIBRATED", {})
    read = Federation.from_toml(written.to_toml())
    assert (read.setting.spec, read.run) == (written.setting.spec, written.run)
    assert read.plans == written.plans
    assert (read, hash(read)) == (written, hash(written))


def test_more_noise_keeps_the_budget(written):
    more = replace(written, spec=replace(written.spec, method=noisier(written, 1 + 1e-7)))
    assert more.setting.guarantee(1e-5).epsilon <= 2.0
    assert more.run != written.run


@pytest.mark.parametrize("times", [0.5, 0.99, 1 - 1e-6])
def test_noise_that_does_not_keep_the_budget_is_refused(written, times):
    less = replace(written, spec=replace(written.spec, method=noisier(written, times)))
    read = Federation.from_toml(less.to_toml())
    with pytest.raises(InputError, match=r"the run costs epsilon = [24]\.\d+ .*, and its budget is 2"):
        _ = read.setting


def test_a_run_of_ones_own_is_in_the_file(own):
    """Every field of its method; and nothing that nobody asked for."""
    read = Federation.from_toml(own.to_toml())
    np.testing.assert_array_equal(read.spec.method.alpha, own.spec.method.alpha)
    assert (read.spec.digest, read.run) == (own.spec.digest, own.run)
    assert "recipe" not in own.to_toml()
    assert own.setting.name == "dvp"


def test_every_field_of_the_run_is_in_its_name(own):
    """A field, or a parameter of the method, that differs gives another run; and the part that differs is named."""
    spec = own.spec
    changes = {
        "method": ConsensusADMM(),
        "rounds": spec.rounds - 1,
        "loss": Logistic(offset=0.5),
        "graph": Graph.complete(5),
        "l2": 0.02,
        "radius": 65.0,
        "budget": Budget(9.0, 1e-5),
        "trust": Trust(robust="median"),
        "scale": 2.0,
        "recipe": "dvp",
        "schema": own.schema.digest,
    }
    refused = {"count": True, "tolerance": 1e-3}  # of which agents know nothing
    assert changes.keys() | refused.keys() == {field.name for field in fields(RunSpec)}
    names = {own.run}
    for name, value in changes.items():
        other = replace(own, spec=replace(spec, **{name: value}))
        parts = {part for part in other.parts.keys() | own.parts.keys() if other.parts.get(part) != own.parts.get(part)}
        assert parts == {"edges" if name == "graph" else f"run.{name}"}
        names.add(other.run)
    for field in fields(DualPerturbedADMM):
        value = {"budget": None, "alpha": [1.0] * 6, "solver": None}.get(field.name, getattr(spec.method, field.name))
        changed = {field.name: value}
        if value is getattr(spec.method, field.name):
            changed = {field.name: value * 1.5 if isinstance(value, float) else not value}
        if field.name != "budget":  # it excludes alpha
            names.add(replace(own, spec=replace(spec, method=replace(spec.method, **changed))).run)
    assert len(names) == 1 + len(changes) + len(fields(DualPerturbedADMM)) - 1


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"tolerance": 1e-3, "budget": None}, "agents do not stop early: leave out tolerance"),
        ({"count": True, "budget": Budget(9.0, 1e-5), "loss": recipes.RECIPES["dvp"].loss}, "agents do not count"),
        ({"method": DPADMM(term=lasso(15, 0.1), step=0.1)}, "DPADMM is for one agent with all rows"),
        ({"method": SharingADMM(A=np.ones((5, 2, 15)), c=np.zeros(2))}, "sharing-admm: its agents have variables"),
        ({"method": DualPerturbedADMM(penalty=0.5, alpha=[[1.0, 2.0]] * 6)}, "alpha is given for 2 agents"),
        ({"method": SummedGradientDescent(step=0.1)}, "shared-descent needs sums over all members"),
        ({"loss": Multinomial(3)}, "the loss 'multinomial' of the run does not fit the label 'ill'"),
        ({"schema": "0" * 64}, "planned for records of another schema"),
        ({"recipe": "my-recipe"}, "there is no recipe 'my-recipe' for this run"),
        ({"recipe": "dvp", "budget": None}, "there is no recipe 'dvp' for this run"),
        ({"radius": 1e300}, "the radius of models is at most"),
        ({"graph": Graph.ring(4)}, "the run is for 4 agents, not for 5 members"),
    ],
    ids=lambda value: "+".join(value) if isinstance(value, dict) else "",
)
def test_what_agents_cannot_run_says_why(own, changes, complaint):
    with pytest.raises(TacitError, match=complaint):
        _ = replace(own, spec=replace(own.spec, **changes)).plans


def test_noise_is_shared_by_as_many_as_the_members_trust(made):
    totals = made("totals")
    for trust in (Trust(2), Trust(0)):
        with pytest.raises(InputError, match="the method shares its noise for colluders = 1 and dropouts = 0"):
            replace(totals, spec=replace(totals.spec, trust=trust))
    lasso_of_all = SummedDPADMM(method=DPADMM(term=lasso(15, 0.1), step=0.1), deviation=9.0, colluders=1, dropouts=1)
    spec = replace(totals.spec, method=lasso_of_all, trust=Trust(1, 1), recipe="")
    with pytest.raises(InputError, match="SummedDPADMM cannot go on without a member: leave out dropouts"):
        replace(totals, spec=spec, go_on_after=10.0)


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        (r"^version = 2", "version = 1", r"version must be 2, not 1: write it anew \(tacit federation new\)"),
        (r"^\[run\]", "[run]\ngraph = { kind = 'ring', agents = 5 }", "it follows from the edges"),
        (r"^rounds = \d+\n", "", "a run needs rounds"),
        (r"^l2 = .*", 'l2 = "much"', "l2 must be"),
        (r"^\[run\]", "[run]\nrecipe = 5", "recipe of a run is a text, not 5"),
        (r"^\[run\]", '[run]\ncount = "yes"', "count of a run is true or false, not 'yes'"),
        (r"^\[run\]", "[[run]]", r"run is a table; write \[run\]"),
        (r"^\[run\]", "[run]\nspeed = 1", "a run has no 'speed'"),
        ('kind = "dvp"', 'kind = "os.system"', "the kind of the method is one of"),
    ],
)
def test_a_file_that_cannot_be_meant_is_refused_in_one_line(own, old, new, complaint):
    with pytest.raises(InputError, match=complaint) as refused:
        edited(own, old, new)
    assert "\n" not in str(refused.value)


def test_numbers_of_a_person_are_the_same_run(own):
    assert edited(own, "scale = 3.0", "scale = 3").run == own.run
    assert edited(own, "epsilon = 10.0", "epsilon = 10").spec.digest == own.spec.digest


def test_a_run_without_a_member_has_noise_of_its_own(made):
    """By its recipe, as whoever asks for a run of the others gets it."""
    agreed = made("going on, private")
    reduced = agreed.without(["elm"])
    assert reduced.spec.method != agreed.spec.method
    others = [member.rows for member in agreed.members if member.name != "elm"]
    again = worker.DVP.resolved(agreed.schema.label, others, 15, reduced.graph, schema=agreed.schema.digest)
    assert reduced.spec.digest == again.spec.digest
    assert reduced.spec.schema == agreed.schema.digest


def test_a_run_of_ones_own_goes_on_only_with_noise_that_keeps_the_budget(own, made):
    """Nobody calibrates it anew: what it costs follows from who is left."""
    with pytest.raises(TacitError, match=r"alpha is given for 5 agents, the graph has 4"):
        own.without(["elm"])  # a value for each of five members
    method = PenaltyPerturbedADMM(penalty=0.5, dual_step=0.4, budget=Gaussian(20.0))
    spec = replace(own.spec, method=method, budget=Budget(10.0, 1e-5))
    cost = replace(own, spec=spec).setting.guarantee(1e-5).epsilon
    left = replace(own, spec=spec).without(["dogwood"])  # who has most rows: each of the others' weighs more then
    assert left.spec.method == method
    more = left.setting.guarantee(1e-5).epsilon
    assert cost < more < 10.0
    tight = replace(own, spec=replace(spec, budget=Budget((cost + more) / 2, 1e-5)))
    with pytest.raises(InputError, match="the run costs epsilon = "):
        tight.without(["dogwood"])


def test_a_reason_for_a_large_delta_is_in_the_model_file(own):
    from tacit.agent.certificate.trained_model import model_of

    with pytest.raises(InputError, match="delta"):
        _ = replace(own, spec=replace(own.spec, budget=Budget(10.0, 0.5))).setting
    allowed = replace(own, spec=replace(own.spec, budget=Budget(10.0, 0.5, "a drill with made-up records")))
    read = Federation.from_toml(allowed.to_toml())
    model = model_of(read, "alder", np.zeros(15))
    assert model.privacy["delta was allowed because"] == "a drill with made-up records"
    assert model.training["spec digest"] == read.spec.digest
    assert RunSpec.from_plain(json.loads(json.dumps(model.training["spec"]))).digest == read.spec.digest
