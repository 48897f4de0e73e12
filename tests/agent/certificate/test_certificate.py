"""Certificates: an honest one holds, and whatever is forged in one is refused and named."""

import asyncio
import copy
import json
import random
import re
from collections import Counter
from dataclasses import replace
from hashlib import sha256

import agent_network
import finished_run
import numpy as np
import pytest
from finished_run import EXACT, NAMES, PRIVATE, Crash, finished

from tacit import SeededNoise
from tacit.agent import documents
from tacit.agent.certificate import verdict
from tacit.agent.certificate.claims import BELIEVED
from tacit.agent.certificate.examination import examined
from tacit.agent.certificate.signed_report import verified
from tacit.agent.certificate.trained_model import digest
from tacit.agent.delivery import Rows
from tacit.agent.federation import SUMS, TOTALS, Federation
from tacit.agent.heard import MessageChain
from tacit.agent.identity import fingerprint
from tacit.agent.loop import AgentLoop
from tacit.agent.membership import revocation
from tacit.agent.signed_words import Statements
from tacit.agent.store import Store
from tacit.agent.transport.wire import packed_row, row_of
from tacit.agent.transport.wire_pb2 import Message
from tacit.errors import InputError
from tacit.run.budget import Budget
from tacit.run.request import Request
from tacit.run.trust import Trust

identities, network = agent_network.identities, agent_network.network  # fixtures
TOKEN = Request(method="i-admm", penalty=5.0, l2=0.5, loss="logistic")
OTHER = sha256(b"something else").hexdigest()


@pytest.fixture(scope="session")
def private(tmp_path_factory):
    return finished(tmp_path_factory.mktemp("private"), PRIVATE)


@pytest.fixture(scope="session")
def exact(tmp_path_factory):
    return finished(tmp_path_factory.mktemp("exact"), replace(EXACT, trust=Trust(robust="clipping")))


def said(faults):
    return [str(fault) for fault in faults]


# Honest runs


def test_an_honest_certificate_holds(private):
    document = private.certificate()
    assert said(examined(document).faults) == []
    assert said(examined(json.loads(json.dumps(document)), private.model("birch")).faults) == []
    found = verdict.as_plain(examined(document, private.model("birch")))
    assert (found["valid"], found["faults"], found["private"]) == (True, [], True)
    assert (found["epsilon"], found["delta"], found["colluders"]) == (2.0, 1e-5, 2)
    assert found["run"] == private.federation.run
    assert [each["name"] for each in found["members"]] == [each["name"] for each in found["signed_by"]] == list(NAMES)
    proved = " ".join(found["proved"])
    assert "released the messages that were planned, no more and no less: 33 each" in proved
    assert "What was sent is what was heard: 198 messages between 3 pairs of neighbours" in proved
    assert "is protected in this run by (2, 1e-05) against all other members together" in proved
    assert "The model file is the model that birch signed" in proved


def test_the_plan_of_a_certificate_is_that_of_the_federation_file(private):
    plan = private.certificate()["plan"]
    assert plan == {name: {"releases": 33, "epsilon": 2.0, "delta": 1e-5} for name in NAMES}


def test_exact_values_are_called_what_they_are(exact):
    document = exact.certificate()
    assert said(examined(document, exact.model("cedar")).faults) == []
    found = verdict.as_plain(examined(document))
    assert (found["private"], found["epsilon"], found["delta"]) == (False, None, None)
    assert "No budget was agreed on: nothing in this run is private." in found["proved"]
    assert not any("fresh noise" in line or "ledger" in line for line in found["believed"])


@pytest.mark.parametrize(
    ("asked", "settings"),
    [
        (TOKEN, {"rounds": 7}),  # some neighbours are heard twice
        (Request(method="pi-admm", budget=Budget(2.0, 1e-5)), {}),  # a token, then all at once
        (PRIVATE, {"exchange": SUMS}),
        (Request(method="shared-descent", budget=Budget(2.0, 1e-5), trust=Trust(1)), {"exchange": TOTALS}),
    ],
    ids=["token", "private token", "sums", "totals"],
)
def test_every_kind_of_run_has_a_certificate(tmp_path, asked, settings):
    run = finished(tmp_path, asked, **settings)
    document = run.certificate()
    found = verdict.as_plain(examined(document, run.model("alder")))
    assert found["faults"] == []
    sealed = "exchange" in settings
    assert any("What was sent is what was heard" in line for line in found["proved"]) != sealed
    assert any("rows were secret-shared" in line for line in found["believed"]) == sealed
    if asked.trust.reserve is not None:
        assert "All 3 members signed the same model." in found["proved"]
        report = document["reports"][1]["report"]
        document["reports"][1] = run.signed("birch", report | {"model": OTHER})
        (fault,) = examined(document).faults
        assert fault.where == "reports.birch.model"


# Crashes


class Deaths:
    """birch dies again and again, at points that a generator chooses. It speaks only when it has heard all that it can
    hear at that tick: what is heard before a commit is heard once more after a crash."""

    def __init__(self, monkeypatch, rng):
        self._rng, self._left, self.points = rng, rng.randrange(8), Counter()
        speak, tick = AgentLoop._speak, AgentLoop._tick

        async def patient(loop, t):
            near = [loop.participant.federation.names[j] for j in loop.role(t).hears]
            while loop.participant.name == "birch" and any(loop.conversation.heard[name] <= t for name in near):
                await asyncio.sleep(0.005)
            await speak(loop, t)

        async def ticked(loop, t, patience):
            await tick(loop, t, patience)
            self._pass("after a tick", loop.participant.name == "birch")

        monkeypatch.setattr(AgentLoop, "_speak", patient)
        monkeypatch.setattr(AgentLoop, "_tick", ticked)
        for method in ("commit", "finish"):
            monkeypatch.setattr(Store, method, self._deadly(getattr(Store, method), method))

    def _deadly(self, work, point):
        def called(store, *args):
            mine = store.path.name.startswith("birch")
            self._pass(f"before {point}", mine)
            work(store, *args)
            self._pass(f"after {point}", mine)

        return called

    def _pass(self, point, mine):
        self._left -= mine
        if mine and self._left < 0:
            self._left = self._rng.randrange(8)
            self.points[point] += 1
            raise Crash


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("method", [EXACT, TOKEN], ids=["all", "token"])
def test_crashes_do_not_make_digests_disagree(tmp_path, monkeypatch, method, seed):
    deaths = Deaths(monkeypatch, random.Random(seed))
    run = finished(tmp_path, method, rounds=15)
    assert sum(deaths.points.values()) >= 5, deaths.points
    assert said(examined(run.certificate(), run.model("birch")).faults) == []


def test_processes_that_are_killed_have_a_certificate(network):
    net = network("by the file")
    net.start(0, 2, 3, 4)
    for fault in (("may leave", 1), ("asked", 4), ("finished", 0)):
        net.start(1, fault=fault)
        assert net.ended(1) == -9, fault
    net.start(1)
    assert [net.ended(i) for i in range(5)] == [0] * 5, net.log(1)
    assert net.certificate_faults() == []


# Forgeries


def leaves(value, path=()):
    """The paths to all values of a document that hold no others. Of a long list the first and the last item."""
    if isinstance(value, dict) and value:
        return [path, *(each for key in value for each in leaves(value[key], (*path, key)))]
    if isinstance(value, list) and value:
        return [path, *(each for k in {0, len(value) - 1} for each in leaves(value[k], (*path, k)))]
    return [path]


def forged(value):
    """Another value of the same kind."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, float):
        return value + 0.25
    if isinstance(value, str):
        return OTHER if re.fullmatch("[0-9a-f]{64}", value) else value + "x"
    if isinstance(value, list):
        return value[:-1] if value else ["x"]
    if isinstance(value, dict):
        return {**value, "forged": 1}
    return 7


def changed(document, path, change):
    """A copy with another value at a path; () is the document itself."""
    made = copy.deepcopy(document)
    if not path:
        return change(made)
    inner = made
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = change(inner[path[-1]])
    return made


def removed(document, path):
    made = copy.deepcopy(document)
    inner = made
    for step in path[:-1]:
        inner = inner[step]
    del inner[path[-1]]
    return made


def field(path):
    """The name that a fault must give: the last on the way that is no place in a list."""
    return next((step for step in reversed(path) if isinstance(step, str)), "forged")


def believed(path):
    """What a reader is told about a field that only its member can know."""
    names = [".".join(map(str, path[: k + 1])) for k in range(len(path))]
    return next((BELIEVED[name] for name in names if name in BELIEVED), None)


def of_alder(run, report):
    """The certificate with another report of alder, which alder has signed."""
    document = run.certificate()
    document["reports"][0] = run.signed("alder", report)
    return document


def names_it(faults, name):
    return any(name in fault.where.split(".") or name in fault.what.split() for fault in faults)


@pytest.mark.parametrize("kind", ["private", "exact"])
def test_each_field_of_a_report_that_is_forged_is_named(request, kind):
    """Signed by its member, and false. What only the member can know passes, and is listed as something to believe."""
    run = request.getfixturevalue(kind)
    report = run.certificate()["reports"][0]["report"]
    trusted = verdict.as_plain(examined(run.certificate()))["believed"]
    tried = 0
    for path in leaves(report):
        found = examined(of_alder(run, changed(report, path, forged)))
        if not found.faults:
            assert believed(path) in trusted, path
            continue
        assert names_it(found.faults, field(path)), (path, said(found.faults))
        tried += 1
    assert tried > 20
    for path in (path for path in leaves(report) if path):
        faults = examined(of_alder(run, removed(report, path))).faults
        moved = path[:2] == ("listening", "moved") and len(path) == 3  # that a neighbour was never moved is believed
        assert names_it(faults, field(path)) or moved, (path, said(faults))


@pytest.mark.slow
@pytest.mark.parametrize("value", [None, True, -1, 0.5, 10**400, "", [], {}, [[]], "\ud800\x1b[2J", 1e308])
def test_a_report_with_values_of_another_kind_is_refused_on_lines_of_their_own(private, value):
    report = private.certificate()["reports"][0]["report"]
    for path in (path for path in leaves(report) if path):
        if path == ("private",) and value is True:
            continue
        if changed(report, path, lambda _: value) == report:
            continue
        faults = examined(of_alder(private, changed(report, path, lambda _: value))).faults
        assert names_it(faults, field(path)), (path, said(faults))
        assert all(line.isascii() and line.isprintable() for line in said(faults))


def test_each_field_of_a_certificate_that_is_forged_is_named(private):
    document = private.certificate()
    assert len(list(leaves(document))) > 100
    for path in leaves(document):
        if path[:1] == ("reports",) and len(path) > 2:
            continue  # reports are signed: the tests above and below
        faults = examined(changed(document, path, forged)).faults
        assert names_it(faults, field(path)), (path, said(faults))
        if path:
            faults = examined(removed(document, path)).faults
            assert names_it(faults, field(path)) or path[0] == "reports", (path, said(faults))
            assert faults


def test_a_report_that_was_changed_after_it_was_signed(private):
    document = private.certificate()
    assert len(list(leaves(document["reports"][0]["report"]))) > 50
    for path in leaves(document["reports"][0]["report"]):
        whole = ("reports", 0, "report", *path)
        faults = examined(changed(document, whole, forged)).faults
        if field(path) not in ("member", "forged"):
            assert faults, path
        assert field(path) == "format" or any("signature" in f.where or field(path) in str(f) for f in faults), path


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('title = "a small study"', 'title = "a large study"'),
        ("epsilon = 2", "epsilon = 1"),
        ("delta = 1e-05", "delta = 1e-06"),
        ("rounds = 33", "rounds = 32"),
        ("rows = 40", "rows = 41"),
        ("radius = 32.0", "radius = 64.0"),
        ("[run]\n", '[run]\ntrust = { robust = "median" }\n'),
        ('exchange = "rows"', 'exchange = "secret-shared sums"'),
        ("go_on_after = 0", "go_on_after = 60"),
        ('["alder", "birch"], ', ""),
        ("bounds = [0, 1]", "bounds = [0, 2]"),
        ("version = 2\n", "version = 2  # approved by the ministry\n"),
        ("version = 2\n", "version = 1\n"),
        ('["alder", "birch"]', '["alder", "\\u001B[2J"]'),
        ("BEGIN CERTIFICATE", "BEGIN"),
        ("version = 2\n", "x = " + "[" * 10_000),
    ],
)
def test_another_federation_file(private, old, new):
    document = private.certificate()
    assert old in document["federation"]
    document["federation"] = document["federation"].replace(old, new, 1)
    faults = examined(document).faults
    assert any("federation" in str(fault) for fault in faults), said(faults)
    assert all(line.isprintable() for line in said(faults))


def test_another_spec(private):
    """The certificate says which run it is about in plain data; it must be that of the federation file."""
    for key, forged in (("spec digest", "ab" * 32), ("spec", {"rounds": 1})):
        document = private.certificate()
        document[key] = forged
        assert any(fault.where.startswith(key) for fault in examined(document).faults)
    model = private.model("birch")
    model["training"]["spec"]["budget"]["epsilon"] = 1.0
    assert "model.training.spec.budget.epsilon" in [f.where for f in examined(private.certificate(), model).faults]


def test_a_certificate_of_an_older_tacit_says_what_to_do(private):
    document = private.certificate() | {"version": 1}
    del document["spec"], document["spec digest"]
    (fault,) = examined(document).faults
    assert str(fault) == "version: it was written by an older tacit: verify it with the version that wrote it"


def test_the_certificate_of_somebody_else_in_the_federation_file(private, tmp_path):
    """A forger who makes new keys for everybody can sign everything. Only the fingerprints give it away."""
    document = private.certificate()
    forger = finished_run.Identity.new("alder", tmp_path)
    document["federation"] = document["federation"].replace(private.identities["alder"].certificate, forger.certificate)
    faults = examined(document).faults
    assert names_it(faults, "run")
    assert names_it(faults, "signature")


# The cheats that were measured, and others


def test_a_report_with_invented_numbers_is_refused_in_each_of_them(private):
    """epsilon = 0.001, a zero model hash and invented message hashes, all signed."""
    report = private.certificate()["reports"][0]["report"]
    report |= {"epsilon": 0.001, "model": "0" * 64}
    for k, release in enumerate(report["releases"]):
        release["sha256"] = sha256(b"%d" % k).hexdigest()
    found = said(examined(of_alder(private, report)).faults)
    assert any(line.startswith("reports.alder.model: must be a SHA-256") for line in found)
    assert any("reports.alder.epsilon: claims that epsilon is 0.001" in line for line in found)
    for name in ("birch", "cedar"):
        (line,) = (line for line in found if line.startswith(f"reports.{name}.heard.alder.digest: "))
        assert f"{name} did not hear the messages whose sha256 alder lists in its releases" in line
    assert len(found) == 4
    report |= {"model": OTHER}  # which nobody can know to be false without the model
    assert len(examined(of_alder(private, report)).faults) == 3
    assert "model.weights" in [f.where for f in examined(of_alder(private, report), private.model("alder")).faults]
    report["releases"][5]["sha256"] = "0" * 64
    assert "reports.alder.releases.5.sha256" in [f.where for f in examined(of_alder(private, report)).faults]


def test_a_release_that_is_left_out(private):
    report = private.certificate()["reports"][0]["report"]
    for k in (0, 7, 32):
        faults = examined(of_alder(private, removed(report, ("releases", k)))).faults
        assert any(fault.where.startswith("reports.alder.releases") for fault in faults), said(faults)
        assert any("heard.alder" in fault.where for fault in faults)
    again = changed(report, ("releases",), lambda releases: [*releases, releases[-1]])
    assert names_it(examined(of_alder(private, again)).faults, "releases")


def test_releases_in_another_order(private):
    report = private.certificate()["reports"][0]["report"]
    a, b = (report["releases"][k]["sha256"] for k in (3, 4))
    report["releases"][3]["sha256"], report["releases"][4]["sha256"] = b, a
    assert [f.where for f in examined(of_alder(private, report)).faults] == [
        "reports.birch.heard.alder.digest",
        "reports.cedar.heard.alder.digest",
    ]


def test_digests_of_what_was_heard_that_are_exchanged(private):
    report = private.certificate()["reports"][0]["report"]
    heard = report["heard"]
    heard["birch"]["digest"], heard["cedar"]["digest"] = heard["cedar"]["digest"], heard["birch"]["digest"]
    assert [f.where for f in examined(of_alder(private, report)).faults] == [
        "reports.alder.heard.birch.digest",
        "reports.alder.heard.cedar.digest",
    ]


# Lies that fit together: every member that takes part signs its own again, with chains of what it says it heard


def chain_of(federation, reports, listener, name, count):
    """Of the first `count` messages of a member that a listener hears, by what the member says that it released."""
    said_at, chain = {each["tick"]: bytes.fromhex(each["sha256"]) for each in reports[name]["releases"]}, MessageChain()
    for tick in federation.hearings[listener, name][:count]:
        chain = chain.then(tick, said_at.get(tick, bytes(32)))
    return {"messages": count, "digest": chain.digest.hex()}


def heard(reports, federation, listener, name, fewer):
    """The listener has not heard the last messages; the chain of the others is right."""
    count = len(federation.hearings[listener, name]) - fewer
    reports[listener]["heard"][name] |= chain_of(federation, reports, listener, name, max(count, 0))


def left_out(reports, federation, name, releases):
    """The member does not list its last releases, and nobody has heard them."""
    del reports[name]["releases"][-releases:]
    for listener in NAMES:
        if listener != name:
            heard(reports, federation, listener, name, releases)


LIES = {
    "one message less": lambda reports, federation: heard(reports, federation, "alder", "birch", 1),
    "none at all": lambda reports, federation: heard(reports, federation, "cedar", "alder", 99),
    "half of them": lambda reports, federation: heard(reports, federation, "birch", "cedar", 16),
    "a release less": lambda reports, federation: left_out(reports, federation, "birch", 1),
    "no release": lambda reports, federation: left_out(reports, federation, "cedar", 33),
}
LIARS = {  # the places that have to be named
    "one message less": "reports.alder.heard.birch.messages",
    "none at all": "reports.cedar.heard.alder.messages",
    "half of them": "reports.birch.heard.cedar.messages",
    "a release less": "reports.birch.releases",
    "no release": "reports.cedar.releases",
}


@pytest.mark.parametrize("first", LIES)
def test_lies_that_fit_together_are_found(private, first):
    """Alone, and with each of the others."""
    for second in LIES:
        document = private.certificate()
        reports = {each["report"]["member"]: each["report"] for each in document["reports"]}
        for lie in {first: None, second: None}:  # in this order, once each
            LIES[lie](reports, private.federation)
        document["reports"] = [private.signed(name, reports[name]) for name in NAMES]
        found = [fault.where for fault in examined(document).faults]
        assert not any("signature" in where for where in found)
        for lie in (first, second):
            assert any(where.startswith(LIARS[lie]) for where in found), (lie, found)


def test_every_certificate_of_a_revoked_member_is_refused(tmp_path):
    """Of a chain of three keys, whichever the member still has; and of another member nothing."""
    made = [finished_run.Identity.made("birch", 30).certificate for _ in range(3)]
    other = finished_run.Identity.made("cedar", 30).certificate
    revocation.revoke(tmp_path, "birch", made[:1], "lost")
    revocation.revoke(tmp_path, "birch", made, "stolen")
    refused = revocation.revoked(tmp_path)
    assert {fingerprint(each) for each in made} == refused
    assert fingerprint(other) not in refused


def test_reports_that_are_missing_double_or_by_others(private):
    document = private.certificate()
    alder, birch, cedar = document["reports"]

    def with_reports(*reports):
        return said(examined(document | {"reports": list(reports)}).faults)

    assert with_reports(cedar, birch, alder) == []
    assert with_reports(alder, birch) == ["reports: there is no report by cedar"]
    assert with_reports(alder, birch, cedar, cedar) == ["reports.3.member: there is a report by cedar already"]
    assert with_reports() == ["reports: none of them can be read as the report of a member"]
    stolen = {"report": alder["report"], "signature": birch["signature"]}
    [stolen_fault] = with_reports(stolen, birch, cedar)
    assert stolen_fault.startswith("reports.alder.signature: the report was changed, or alder has not signed it, or")
    unknown = private.signed("alder", alder["report"] | {"member": "zebra"})
    assert "reports.0.member: 'zebra' is not a member" in with_reports(unknown, birch, cedar)
    posing = private.signed("alder", alder["report"] | {"member": "birch"})
    faults = with_reports(alder, posing, cedar)
    assert any(each.startswith("reports.birch.signature: the report was changed, or birch") for each in faults)


def test_a_report_of_another_run(private, exact):
    """An honest report, of the same members by name, in a run of another title."""
    document, other = private.certificate(), exact.certificate()
    document["reports"][0] = other["reports"][0]
    assert any(fault.where.startswith("reports.alder") for fault in examined(document).faults)
    document = private.certificate()
    again = private.federation.to_toml().replace("a small study", "a second study")
    run = Federation.from_toml(again).run
    document["reports"][0] = private.signed("alder", document["reports"][0]["report"] | {"run": run})
    (line,) = (line for line in said(examined(document).faults) if line.startswith("reports.alder.run"))
    assert line.endswith(f"the federation file about {private.federation.run[:12]}")


def test_members_that_tell_each_neighbour_something_else_are_found(tmp_path, monkeypatch):
    """alder says something else to cedar at one tick, and cedar does not look at what alder has signed while the run
    goes on. All reports are right alone."""
    answer = Rows.answer
    monkeypatch.setattr(Statements, "hear", lambda self, *_: None)

    def two_faced(self, question, message):
        member = self._participant
        if (member.name, question.sender, question.tick) != ("alder", NAMES.index("cedar"), 3):
            return answer(self, question, message)
        row = row_of(Message.FromString(message), self._dimension)
        return packed_row(member.federation.run, member.me, 3, np.nextafter(row, 1.0))

    monkeypatch.setattr(Rows, "answer", two_faced)
    run = finished(tmp_path, EXACT)
    for name in NAMES:
        verified(tmp_path / f"{name}.report.json", run.federation)
    (fault,) = examined(run.certificate()).faults
    assert fault.where == "reports.cedar.heard.alder.digest"
    assert "or alder said something else to cedar than to others" in fault.what


def test_noise_that_can_be_drawn_again_is_told(tmp_path):
    run = finished(tmp_path, PRIVATE, noise=lambda: SeededNoise(1))
    assert said(examined(run.certificate()).faults) == [
        f"reports.{name}.private: {name} says that its noise can be drawn again: its records are not protected"
        for name in NAMES
    ]
    assert verdict.as_plain(examined(run.certificate()))["private"] is False


# The model


def test_each_field_of_a_model_file_that_is_forged_is_named(private):
    document, model = private.certificate(), private.model("alder")
    assert len(list(leaves(model))) > 20
    for path in leaves(model):
        faults = examined(document, changed(model, path, forged)).faults
        assert faults, path
        assert all(fault.where.startswith("model") for fault in faults)
        assert names_it(faults, field(path)), (path, said(faults))
        if path:
            assert examined(document, removed(model, path)).faults, path


def test_a_weight_of_99(private):
    model = private.model("alder")
    model["weights"][1] = 99.0
    (fault,) = examined(private.certificate(), model).faults
    assert fault == ("model.weights", "are not the weights that alder has signed; they are in no report")
    for value in (True, "0", None, [0.0], {}):
        model["weights"][1] = value
        assert [fault.where for fault in examined(private.certificate(), model).faults] == ["model.weights"]


def test_nothing_is_claimed_of_a_certificate_with_a_fault(private):
    """Neither that it is private, nor what it proves, nor what must be believed."""
    sound, document = private.certificate(), private.certificate()
    document["plan"]["alder"]["releases"] += 1
    right, wrong = (verdict.as_plain(examined(each)) for each in (sound, document))
    assert (right["valid"], right["private"], right["faults"]) == (True, True, [])
    assert (wrong["valid"], wrong["private"], wrong["epsilon"]) == (False, False, None)
    assert wrong["faults"]
    for name in ("proved", "signed_by", "believed", "members"):
        assert right[name]
        assert wrong[name] == []


def test_the_model_of_another_member(private):
    """It says that it is alder's, and has the weights of somebody else."""
    document = private.certificate()
    digests = {name: digest(np.array(private.model(name)["weights"])) for name in NAMES}
    assert digests == {each["report"]["member"]: each["report"]["model"] for each in document["reports"]}
    report = document["reports"][0]["report"] | {"model": OTHER}
    document["reports"][0] = private.signed("alder", report)
    (fault,) = examined(document, private.model("alder")).faults
    assert fault.where == "model.weights"


# Files


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"", "it is not JSON"),
        (b"\xff\xfe{}", "must be UTF-8"),
        (b"[]", "it has no named fields"),
        (b"null", "it has no named fields"),
        (b'{"a": NaN}', "NaN is no number that JSON has"),
        (b'{"a": -Infinity}', "-Infinity is no number"),
        (b'{"a": 1e999}', "the number 1e999 is too large"),
        (b'{"a": {"b": 1, "b": 1}}', "has the field 'b' twice"),
        (b'{"a": ' + b"[" * 100_000, "nested too deeply"),
        (b'{"a": ' + b"[" * 50 + b"]" * 50 + b"}", "nested too deeply"),
        (b'{"a": ' + b"1" * 10_000 + b"}", "is not a certificate"),
        (b"\0" * 10_000_000, "it is not JSON"),
    ],
)
def test_what_is_no_document_is_refused_in_one_line(tmp_path, raw, reason):
    (tmp_path / "c.json").write_bytes(raw)
    with pytest.raises(InputError, match=re.escape(reason)) as refused:
        documents.read(tmp_path / "c.json", "a certificate")
    assert len(str(refused.value)) < 400
    assert "\n" not in str(refused.value)


def test_a_file_that_is_too_large_is_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr(documents, "LARGEST", 10)
    (tmp_path / "c.json").write_text('{"a": 12345}')
    with pytest.raises(InputError, match="it has more than 10 bytes"):
        documents.read(tmp_path / "c.json", "a certificate")
