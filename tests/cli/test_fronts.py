"""One wish, four fronts: Python, the estimators, the command line (`plan`, `train`) and federations give the same run,
or refuse it in the same words."""

import json
import re
from dataclasses import replace

import finished_run
import numpy as np
import pytest
from ports import free_ports

import tacit as package
from tacit.core.graph import Graph
from tacit.data import Classes, Number, Schema
from tacit.estimators import FederatedClassifier
from tacit.run.budget import Budget
from tacit.run.request import Request
from tacit.run.trust import Trust

SITES = {"alder": 300, "birch": 240, "cedar": 180, "dogwood": 120}
SCHEMA = Schema(
    label=Classes("ill", positive=("yes",), negative=("no",)),
    columns=tuple(Number(name, bounds=(0, 1)) for name in "abc"),
    row_norm=1.0,
    intercept=True,
)
ROWS = sum(SITES.values())
TOTAL = {"epsilon": 2.0, "delta": 1e-4}


def records():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(ROWS, 3)).round(3)
    y = np.where(X[:, 0] + 0.3 * rng.normal(size=ROWS) > 0.5, "yes", "no")
    return X, y, np.repeat(list(SITES), list(SITES.values()))


@pytest.fixture
def folder(tmp_path):
    X, y, sites = records()
    lines = [",".join([*map(str, row), label, site]) for row, label, site in zip(X, y, sites, strict=True)]
    (tmp_path / "records.csv").write_text("\n".join(["a,b,c,ill,hospital", *lines]) + "\n")
    (tmp_path / "schema.toml").write_text(SCHEMA.to_toml())
    return tmp_path


# The fronts: each gives the run as data, or the words with which it refuses.


def of_python(wish, tacit, folder, net):
    budget = None if wish.get("epsilon") is None else Budget(*_total(wish), wish.get("reason", ""))
    trust = Trust(wish.get("colluders"), wish.get("dropouts", 0), wish.get("robust"))
    names = ("method", "l2", "rounds", "penalty", "loss", "scale", "law")
    asked = {name: wish[name] for name in names if name in wish}
    request = Request(budget, trust, own=wish.get("own", ()), **asked)
    graph = Graph.named(wish.get("graph", "ring"), len(SITES))
    return request.on(SCHEMA, [np.zeros(n) for n in SITES.values()], graph).spec


def of_the_estimator(wish, tacit, folder, net):
    X, y, sites = records()
    asked = {name: wish[name] for name in wish if name not in ("graph", "reason")}
    private = {"bounds": (0, 1), "classes": ["no", "yes"], "random_state": 0}
    private |= {"allow_delta": wish["reason"]} if "reason" in wish else {}
    model = FederatedClassifier(**private, graph=wish.get("graph", "ring"), **asked)
    return model.fit(X, y, sites=sites).spec_


def of_plan(wish, tacit, folder, net):
    rows = ",".join(map(str, SITES.values()))
    method = [wish["method"]] if "method" in wish else []
    code, out, err = tacit("plan", *method, *_options(wish), "--rows", rows, "--schema", "schema.toml", "--json")
    return _ended(code, err, lambda: json.loads(out)["spec"])


def of_train(wish, tacit, folder, net):
    method = ["--method", wish["method"]] if "method" in wish else []
    given = ["records.csv", "--schema", "schema.toml", "--site", "hospital", "--holdout", 0, "--out", "new.json"]
    (folder / "new.json").unlink(missing_ok=True)
    code, _, err = tacit("train", *given, *method, *_options(wish))
    return _ended(code, err, lambda: json.loads((folder / "new.json").read_text())["training"]["spec"])


def of_a_federation(wish, tacit, folder, net):
    from tacit.agent.federation import Federation

    method = ["--method", wish["method"]] if "method" in wish else []
    (folder / "new.toml").unlink(missing_ok=True)
    new = ("federation", "new", "--title", "x", "--schema", "schema.toml", "--out", "new.toml", *net)
    code, _, err = tacit(*new, *method, *_options(wish))
    return _ended(code, err, lambda: Federation.load(folder / "new.toml").spec)


FRONTS = (of_python, of_the_estimator, of_plan, of_train, of_a_federation)
# The estimators have no parameters for settings of one's own, and take a run as data.
OF_ESTIMATORS = {"epsilon", "delta", "reason", "colluders", "dropouts", "l2", "method", "graph"}


def fronts(wish):
    """Those at which it can be said."""
    return [front for front in FRONTS if front is not of_the_estimator or wish.keys() <= OF_ESTIMATORS]


def of_a_comparison(wish, tacit, folder, net):
    """It needs no words of a run: it is asked for what it refuses."""
    method = ["--method", wish["method"]] if "method" in wish else []
    given = ["records.csv", "--schema", "schema.toml", "--site", "hospital", "--seeds", 1, "--jobs", 1]
    code, _, err = tacit("compare", *given, *method, *_options(wish))
    return _ended(code, err, lambda: None)


def _total(wish):
    return wish["epsilon"], wish.get("delta", 1e-5)


def _options(wish):
    flags = {"reason": "--allow-delta", "own": "--set"}
    for name, value in {"graph": "ring", **wish}.items():
        if name != "method" and value is not None:
            for each in value if isinstance(value, tuple) else (value,):
                yield flags.get(name, f"--{name}")
                yield each


def _ended(code, err, found):
    if code:
        last = err.strip().splitlines()[-1]
        assert last.startswith("tacit: error: "), err
        raise package.InputError(last.removeprefix("tacit: error: "))
    return found()


@pytest.fixture
def net(folder):
    """The members of a federation, as `federation new` wants them."""
    from tacit.agent.identity import Identity

    found = []
    for (name, rows), port in zip(SITES.items(), free_ports(len(SITES)), strict=True):
        Identity.new(name, folder)
        found += ["--member", f"{name},127.0.0.1:{port},{rows},{name}/certificate.pem"]
    return found


def _same(spec):
    """As plain data, without the schema, which only some fronts have."""
    plain = spec if isinstance(spec, dict) else replace(spec, schema="").plain()
    return {name: value for name, value in plain.items() if name != "schema"}


# What every front takes. Federations and estimators stop by other rules where nothing is private.
PRIVATE = {
    "the recommended method": TOTAL,
    "a method by name": TOTAL | {"method": "mr-admm"},
    "a token": TOTAL | {"method": "pi-admm"},
    "one release": TOTAL | {"method": "one-shot"},
    "shared noise": TOTAL | {"colluders": 1, "graph": "complete"},
    "dropouts": TOTAL | {"colluders": 1, "dropouts": 1, "graph": "complete"},
    "a large delta with a reason": {"epsilon": 1.0, "delta": 0.01, "reason": "made-up records"},
    "an epsilon of 25": {"epsilon": 25.0, "delta": 1e-4},
    "several aggregators": TOTAL | {"method": "ra-gd"},
    "robust listening": TOTAL | {"robust": "clipping"},
    "robust listening among all": TOTAL | {"robust": "median", "graph": "complete"},
    "noise that only outsiders do not know": TOTAL | {"colluders": 0, "graph": "complete"},
    "all others collude": TOTAL | {"colluders": 3, "graph": "complete"},
    "an epsilon of 1,000": {"epsilon": 1000.0, "delta": 1e-4},
    "a reason that is not needed": TOTAL | {"reason": "made-up records"},
    "a star": TOTAL | {"graph": "star"},
    "random edges": TOTAL | {"graph": "random:4"},
    "the noise of a paper": {"method": "dvp", "own": ("alpha=2",), "rounds": 5},
    "calibrated": TOTAL | {"method": "dvp", "penalty": 0.01, "rounds": 6},
    "a growing penalty": TOTAL | {"method": "mr-admm", "own": ('penalty={kind="geometric",first=0.01,ratio=1.02}',)},
    "pure noise": TOTAL | {"method": "r-admm", "own": ("gamma=0.3",), "law": "pure", "rounds": 6},
    "a list of penalties": TOTAL | {"method": "m-admm", "own": ("penalty=[0.01,0.02,0.03]",), "rounds": 3},
    "a loss of one's own": TOTAL | {"method": "pvp", "penalty": 0.01, "loss": "logistic", "scale": 5.0, "rounds": 4},
    "shared noise of one's own": TOTAL
    | {"method": "shared-descent", "colluders": 1, "graph": "complete", "penalty": 1.0, "rounds": 4},
    "a token of one's own": TOTAL | {"method": "pi-admm", "own": ("penalty=1",), "rounds": 4},
    "robust listening of one's own": TOTAL | {"method": "r-admm", "robust": "clipping", "penalty": 0.01, "rounds": 4},
}


@pytest.mark.filterwarnings("ignore:(epsilon|delta) = :UserWarning")
@pytest.mark.parametrize("wish", PRIVATE.values(), ids=PRIVATE)
def test_the_same_wish_gets_the_same_run(wish, tacit, folder, net):
    expected = _same(of_python(wish, tacit, folder, net))
    for front in fronts(wish)[1:]:
        if front is of_a_federation and "dropouts" in wish:
            continue  # a federation needs go_on_after with it
        assert _same(front(wish, tacit, folder, net)) == expected, front.__name__


# What no front takes: the words of all of them have these in common.
REFUSED = {
    "epsilon 5,000": ({"epsilon": 5000.0}, "an epsilon of 5000 protects nothing: it must be 1000 at most"),
    "epsilon 0": ({"epsilon": 0.0}, "epsilon must be a positive number, not 0"),
    "epsilon below 0": ({"epsilon": -1.0}, "epsilon must be a positive number, not -1"),
    "delta 0.5": ({"epsilon": 1.0, "delta": 0.5}, "delta = 0.5"),
    "delta 0": ({"epsilon": 1.0, "delta": 0.0}, "delta must lie between 0 and 1, not 0"),
    "one over the rows": ({"epsilon": 1.0, "delta": 0.01}, "delta = 0.01"),
    "an unknown method": (TOTAL | {"method": "magic"}, "with epsilon, method is one of dvp, pvp"),
    "an exact method": (TOTAL | {"method": "admm"}, "with epsilon, method is one of dvp, pvp"),
    "noise forgotten": ({"method": "mr-admm"}, "mr-admm is private: give epsilon"),
    "nothing known": ({"method": "magic"}, "without epsilon, method is one of admm"),
    "one holder alone": (TOTAL | {"method": "dp-admm"}, "for one holder of all records, not for 4"),
    "shared without colluders": (TOTAL | {"method": "shared-descent"}, "say how many members may collude"),
    "colluders with local noise": (
        TOTAL | {"method": "pvp", "colluders": 1, "graph": "complete"},
        "which protects against all others together: leave out colluders",
    ),
    "too many colluders": (TOTAL | {"colluders": 4, "graph": "complete"}, "4 colluders and 0 dropouts leave none"),
    "colluders who cut": (TOTAL | {"colluders": 2}, "2 members can cut this graph in two"),
    "colluders without a budget": ({"colluders": 1, "graph": "complete"}, "noise that members share: give epsilon"),
    "no cycle": (TOTAL | {"method": "pi-admm", "graph": "path"}, "no Hamiltonian cycle"),
    "dropouts alone": (TOTAL | {"dropouts": 1}, "members that share their noise: give colluders, too"),
    "l2 with a budget": (TOTAL | {"l2": 0.1}, "the settings follow from the budget: leave out l2"),
    "a mechanism that needs more": (
        TOTAL | {"method": "one-shot", "colluders": 1, "graph": "complete"},
        "or take shared",
    ),
    "epsilon without an end": ({"epsilon": float("inf")}, "epsilon must be a positive number, not inf"),
    "no epsilon": ({"epsilon": float("nan")}, "epsilon must be a positive number, not nan"),
    "just above 1,000": ({"epsilon": 1000.1}, "an epsilon of 1000.1 protects nothing: it must be 1000 at most"),
    "delta 1": ({"epsilon": 1.0, "delta": 1.0}, "delta must lie between 0 and 1, not 1"),
    "exactly one over the rows": ({"epsilon": 1.0, "delta": 1 / ROWS}, "delta = 0.00119048 is not below one over 840"),
    "a blank reason": ({"epsilon": 1.0, "delta": 0.01, "reason": " "}, "delta = 0.01"),
    "a name in capitals": (TOTAL | {"method": "PVP"}, "with epsilon, method is one of dvp, pvp"),
    "an empty name": (TOTAL | {"method": ""}, "with epsilon, method is one of dvp, pvp"),
    "an unknown graph": (TOTAL | {"graph": "wheel"}, "graph must be one of ring, star, path, complete, random:EDGES"),
    "too few edges": (TOTAL | {"graph": "random:2"}, "4 agents can be connected by 3 to 6 edges, not by 2"),
    "colluders below 0": (TOTAL | {"colluders": -1}, "colluders must be a whole number, 0 or more, not -1"),
    "dropouts below 0": (TOTAL | {"colluders": 1, "dropouts": -1}, "dropouts must be a whole number, 0 or more"),
    "nobody is left": (
        TOTAL | {"colluders": 2, "dropouts": 2, "graph": "complete"},
        "2 colluders and 2 dropouts leave none whose noise hides the others: together at most 3",
    ),
    "robust without a second neighbour": (
        TOTAL | {"robust": "clipping", "graph": "path"},
        "needs 2 neighbours or more",
    ),
    "robust by an unknown rule": (TOTAL | {"robust": "mean"}, "robust is one of clipping, trimmed, median; not 'mean'"),
    "robust with a token": (TOTAL | {"robust": "clipping", "method": "pi-admm"}, "all members speak at once"),
    "robust sums": (TOTAL | {"robust": "clipping", "colluders": 1}, "leave out robust, or colluders"),
    "a law alone": (TOTAL | {"law": "pure"}, "leave out law, or name the method that it is about"),
    "a law without a total": ({"law": "pure"}, "law says how a budget is spent: give epsilon, too"),
    "an unknown law": (TOTAL | {"method": "pvp", "penalty": 1.0, "law": "cauchy"}, "law must be one of gaussian, pure"),
    "an unknown parameter": (TOTAL | {"method": "r-admm", "own": ("x=1",)}, "r-admm has no 'x': it has penalty, gamma"),
    "a parameter twice": (TOTAL | {"method": "r-admm", "own": ("gamma=1", "gamma=2")}, "gamma is given twice"),
    "a penalty twice": (
        TOTAL | {"method": "r-admm", "own": ("penalty=1",), "penalty": 2.0},
        "the penalty says what penalty is, too: leave one of them out",
    ),
    "a step twice": (
        TOTAL | {"method": "token-gd", "own": ("step=1",), "penalty": 2.0},
        "the penalty says what step is, too",
    ),
    "no bound on the slope": (
        TOTAL | {"method": "pvp", "penalty": 1.0, "loss": "squared"},
        "Squared has no bound on its slope",
    ),
    "more rounds than a plan has": (
        TOTAL | {"method": "pvp", "penalty": 1.0, "rounds": 10**7},
        "a run has at most 100,000 rounds, not 10,000,000",
    ),
}


# A comparison always has a budget, takes several methods, and leaves out those that cannot run.
COMPARED = ("epsilon 5,000", "epsilon 0", "epsilon below 0", "delta 0.5", "delta 0", "one over the rows",
            "too many colluders", "colluders who cut", "dropouts alone", "epsilon without an end", "no epsilon",
            "just above 1,000", "delta 1", "exactly one over the rows", "a blank reason", "colluders below 0",
            "dropouts below 0", "robust without a second neighbour", "robust by an unknown rule",
            "robust sums")  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_the_same_wish_is_refused_in_the_same_words(name, tacit, folder, net):
    (wish, words), said = REFUSED[name], {}
    for front in (*fronts(wish), of_a_comparison) if name in COMPARED else fronts(wish):
        with pytest.raises(package.TacitError, match=re.escape(words)) as refused:
            front(wish, tacit, folder, net)
        said[front.__name__] = str(refused.value)
    assert len({text.split(";")[0] for text in said.values()}) == 1, said


OWN = [
    PRIVATE[name]
    for name in ("the noise of a paper", "calibrated", "a growing penalty", "pure noise", "a list of penalties")
]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("wish", [TOTAL | {"method": "pvp"}, TOTAL | {"colluders": 1}, *OWN], ids=str)
def test_a_file_is_the_same_run_everywhere(wish, tacit, folder, net):
    """Written by `plan`, it is what every front runs."""
    graph = {"graph": "complete"} if "colluders" in wish else {}
    rows = ",".join(map(str, SITES.values()))
    method = [wish["method"]] if "method" in wish else []
    plan = ("plan", *method, *_options(wish | graph), "--rows", rows, "--schema", "schema.toml")
    code, _, err = tacit(*plan, "--spec-out", "run.toml")
    assert code == 0, err
    code, _, err = tacit("plan", "pvp", "--epsilon", 9, "--spec-out", "run.toml")
    assert code == 2, err
    assert "run.toml is there already and says something else" in err
    for other in (["--rows", "20,30"], ["--rows", 20, "--agents", 2]):
        code, _, err = tacit("plan", "--spec", "run.toml", *other, "--schema", "schema.toml")
        assert code == 2, err
        assert f"the run is for {len(SITES)} agents, not for 2" in err
    spec = package.RunSpec.from_toml(folder / "run.toml")
    code, out, err = tacit("plan", "--spec", "run.toml", "--rows", rows, "--schema", "schema.toml", "--json")
    assert (code, json.loads(out)["spec digest"]) == (0, spec.digest), err
    given = ("records.csv", "--schema", "schema.toml", "--site", "hospital", "--holdout", 0, "--out", "new.json")
    code, out, err = tacit("train", *given, "--spec", "run.toml")
    assert code == 0, err
    assert json.loads((folder / "new.json").read_text())["training"]["spec digest"] == spec.digest
    X, y, sites = records()
    total = {} if spec.budget is None else {"epsilon": spec.budget.epsilon, "delta": spec.budget.delta}
    public = {"bounds": (0, 1), "classes": ["no", "yes"]}
    assert FederatedClassifier(method=spec, **public, **total).fit(X, y, sites=sites).spec_.digest == spec.digest
    from tacit.agent.federation import Federation

    new = ("federation", "new", "--title", "x", "--schema", "schema.toml", "--out", "new.toml", *net)
    code, _, err = tacit(*new, "--spec", "run.toml")
    assert code == 0, err
    assert Federation.load(folder / "new.toml").spec.digest == spec.digest


@pytest.mark.parametrize(
    "wish", [TOTAL | {"method": "pvp"}, TOTAL | {"method": "mr-admm"}, PRIVATE["calibrated"]], ids=str
)
def test_the_same_noise_gives_the_same_model(wish, tacit, folder, net, monkeypatch):
    """To the last bit, in Python, by `train` and by agents that talk to each other. (Estimators scale rows
    otherwise.)"""
    noise = lambda: package.SeededNoise(7)  # noqa: E731
    monkeypatch.setattr("tacit.run.training.SecureNoise", noise)
    weights = of_train(wish, tacit, folder, []) and json.loads((folder / "new.json").read_text())["weights"]
    sites = records()[2]
    frame = package.data.read_csv(folder / "records.csv")
    data = SCHEMA.encode(frame)
    parts = [np.flatnonzero(sites == name) for name in SITES]
    setting = Request(spec=of_python(wish, tacit, folder, [])).on(SCHEMA, parts, Graph.ring(len(SITES)))
    alone = setting.simulate(data.parts(parts), noise())
    np.testing.assert_array_equal(np.ravel(weights), alone.weights)
    assert np.abs(alone.weights).max() > 0
    from tacit.agent.federation import Federation
    from tacit.agent.identity import Identity
    from tacit.privacy import filters
    from tacit.privacy.ledger import Cap, Ledger

    of_a_federation(wish, tacit, folder, net)
    agreed = Federation.load(folder / "new.toml")
    for name in SITES:
        with Ledger.new(folder / f"{name}.ledger", population=name, cost=filters.epsilon) as ledger:
            ledger.set_cap(Cap(10.0, 1e-3))
    identities = {name: Identity.load(folder / name) for name in SITES}
    finished_run.live(folder, agreed, identities, noise, data=[data.take(rows) for rows in parts])
    models = [json.loads((folder / f"{name}.json").read_text())["weights"] for name in SITES]
    np.testing.assert_array_equal(models, alone.run.estimate)


def test_one_holder_of_all_records(tacit, folder):
    """Gradient descent, and the same refusal of what needs neighbours. (A federation has two members or more.)"""
    X, y, _ = records()
    private = {"bounds": (0, 1), "classes": ["no", "yes"], **TOTAL}
    alone = Request(Budget(*TOTAL.values())).on(SCHEMA, [np.zeros(ROWS)], Graph.ring(1))
    estimator = FederatedClassifier(**private).fit(X, y)
    total = ["--epsilon", 2, "--delta", 1e-4]
    train = (
        "train",
        "records.csv",
        "--schema",
        "schema.toml",
        "--agents",
        1,
        "--holdout",
        0,
        *total,
        "--out",
        "new.json",
    )
    code, _, err = tacit(*train)
    assert code == 0, err
    planned = json.loads(tacit("plan", "--rows", ROWS, "--agents", 1, "--schema", "schema.toml", *total, "--json")[1])
    trained = json.loads((folder / "new.json").read_text())["training"]["spec"]
    assert alone.name == "gradient-descent"
    assert _same(alone.spec) == _same(estimator.spec_) == _same(planned["spec"]) == _same(trained)
    words = "it needs neighbours; one holder of all records takes one of: one-shot, gradient-descent"
    with pytest.raises(package.InputError, match=words):
        Request(Budget(*TOTAL.values()), method="pvp").on(SCHEMA, [np.zeros(ROWS)], Graph.ring(1))
    with pytest.raises(package.InputError, match=words):
        FederatedClassifier(method="pvp", **private).fit(X, y)
    (folder / "new.json").unlink()
    assert words in tacit(*train, "--method", "pvp")[2]
    assert words in tacit("plan", "pvp", "--rows", ROWS, "--agents", 1, *total)[2]


@pytest.mark.parametrize("reserve", [(), ("--colluders", 1)])
def test_a_graph_that_nobody_names_is_the_same_at_every_front(reserve, tacit, folder):
    """Of six members and more, too, where it is no ring."""
    from tacit.agent.federation import Federation
    from tacit.agent.identity import Identity

    names = [f"m{k}" for k in range(8)]
    members = [f"--member={name},127.0.0.1:{7000 + k},90,{name}.pem" for k, name in enumerate(names)]
    for name in names:
        Identity.new(name, folder)
        (folder / f"{name}.pem").write_bytes((folder / name / "certificate.pem").read_bytes())
    budget = ("--epsilon", 2, "--delta", 1e-4, *reserve)
    new = ("federation", "new", "--title", "x", "--schema", "schema.toml", "--out", "new.toml")
    assert tacit(*new, *members, *budget)[0] == 0
    code, out, _ = tacit("plan", *budget, "--rows", ",".join(["90"] * 8), "--schema", "schema.toml", "--json")
    assert code == 0
    agreed = Federation.load(folder / "new.toml").spec
    assert _same(agreed) == _same(json.loads(out)["spec"])
    assert len(agreed.graph.edges) > 8
