"""`tacit certificate` and `tacit predict --certificate`: exit codes, and what people and programs see."""

import json
import shutil

import pytest
from finished_run import NAMES, PRIVATE, finished

from tacit import __version__

REPORTS = [f"{name}.report.json" for name in NAMES]
MAKE = ["certificate", "make", "--federation", "federation.toml", *REPORTS, "--out", "c.json"]
KEYS = (
    "valid faults run title method rounds exchange without private epsilon delta colluders dropouts coalitions members "
    "proved signed_by believed"
)


@pytest.fixture(scope="session")
def run(tmp_path_factory):
    return finished(tmp_path_factory.mktemp("run"), PRIVATE)


@pytest.fixture
def folder(run, tacit, tmp_path):
    """The files of a finished run, its certificate among them, where `tacit` runs."""
    shutil.copytree(run.folder, tmp_path, dirs_exist_ok=True)
    (tmp_path / "new.csv").write_text("x0,x1,x2\n0.5,0.1,0.2\n")
    code, out, err = tacit(*MAKE)
    assert (code, out) == (0, "a small study: the reports of alder, birch, cedar agree\n"), err
    return tmp_path


def changed(path, change):
    plain = json.loads(path.read_text())
    change(plain)
    path.write_text(json.dumps(plain))


def heavy(model):
    model["weights"][0] = 99.0


def test_what_a_person_sees(folder, run, tacit):
    code, out, err = tacit("certificate", "verify", "c.json", "--model", "cedar.json")
    assert (code, err) == (0, "")
    first, *lines = out.splitlines()
    assert first == f"a small study: run {run.federation.run[:16]}"
    headings = [line for line in lines if not line.startswith("- ")]
    assert headings == ["Proved:", "Signed by:", "You have to believe:"]
    assert sum("certificate SHA-256 " in line and f"tacit {__version__}" in line for line in lines) == 3
    assert any(line.startswith("- The model file is the model that cedar signed") for line in lines)
    assert "- Each member drew fresh noise, as its report says." in lines


def test_what_a_program_sees(folder, run, tacit):
    code, out, _ = tacit("certificate", "verify", "c.json", "--json")
    found = json.loads(out)
    assert code == 0
    assert list(found) == KEYS.split()
    assert (found["valid"], found["faults"], found["title"]) == (True, [], "a small study")
    changed(folder / "cedar.json", heavy)
    code, out, _ = tacit("certificate", "verify", "c.json", "--model", "cedar.json", "--json")
    found = json.loads(out)
    assert (code, list(found), found["valid"]) == (1, KEYS.split(), False)
    assert [fault["where"] for fault in found["faults"]] == ["model.weights"]
    assert found["proved"] == found["signed_by"] == found["members"] == []


def test_each_fault_is_a_line_and_the_exit_code_is_1(folder, tacit):
    def forge(certificate):
        certificate["plan"]["birch"]["epsilon"] = 0.001
        certificate["note"] = "approved"
        del certificate["reports"][2]

    changed(folder / "c.json", forge)
    code, out, err = tacit("certificate", "verify", "c.json")
    assert (code, err) == (1, "")
    assert out.splitlines() == ["fault: note: is no field of this document", "c.json does not hold: 1 fault"]
    changed(folder / "c.json", lambda certificate: certificate.pop("note"))
    assert tacit("certificate", "verify", "c.json")[1].splitlines() == [
        "fault: reports: there is no report by cedar",
        "fault: plan.birch.epsilon: claims that epsilon is 0.001; by the federation file it is 2.0",
        "c.json does not hold: 2 faults",
    ]


def test_reports_that_do_not_hold_make_no_certificate(folder, run, tacit):
    (folder / "c.json").unlink()
    report = json.loads((folder / "birch.report.json").read_text())["report"]
    for release in report["releases"]:
        release["sha256"] = report["model"]
    (folder / "birch.report.json").write_text(json.dumps(run.signed("birch", report | {"epsilon": 0.001})))
    code, out, _ = tacit(*MAKE)
    assert code == 1
    assert [line.split(": ")[1] for line in out.splitlines()[:-1]] == [
        "reports.birch.epsilon",
        "reports.alder.heard.birch.digest",
        "reports.cedar.heard.birch.digest",
    ]
    assert not (folder / "c.json").exists()
    code, _, err = tacit("federation", "verify", "federation.toml", "birch.report.json")
    assert (code, err.count("\n"), "claims that epsilon is 0.001" in err) == (2, 1, True)


@pytest.mark.parametrize(
    ("text", "reason"),
    [("", "is not JSON"), ("[1]", "no named fields"), ('{"a": NaN}', "NaN"), ('{"a": 1, "a": 2}', "'a' twice")],
)
def test_what_cannot_be_read_is_one_line_and_the_exit_code_is_2(folder, tacit, text, reason):
    (folder / "rubbish.json").write_text(text)
    for command in (
        ["certificate", "verify", "rubbish.json"],
        ["certificate", "verify", "c.json", "--model", "rubbish.json"],
        ["certificate", "verify", "nothing.json"],
        ["predict", "alder.json", "new.csv", "--certificate", "rubbish.json"],
        [*MAKE, "rubbish.json"],
    ):
        code, out, err = tacit(*command)
        assert (code, out, err.count("\n")) == (2, "", 1), command
        assert reason in err or "nothing.json" in err
    assert not (folder / "predictions.csv").exists()


def test_a_file_that_is_no_certificate_is_called_so(folder, tacit):
    code, out, _ = tacit("certificate", "verify", "alder.json")
    assert (code, len(out.splitlines()), "this is no certificate" in out) == (1, 2, True)
    code, _, err = tacit("predict", "alder.json", "new.csv", "--certificate", "alder.json")
    assert (code, err.count(";"), "this is no certificate" in err) == (2, 0, True)


def test_predict_refuses_a_model_that_does_not_match_its_certificate(folder, tacit):
    predict = ["predict", "alder.json", "new.csv", "--certificate", "c.json"]
    assert tacit(*predict)[0] == 0
    (folder / "predictions.csv").unlink()
    changed(folder / "alder.json", heavy)
    code, _, err = tacit(*predict)
    assert (code, err.count("\n")) == (2, 1)
    assert "alder.json does not match the certificate c.json, so nothing was predicted" in err
    assert "model.weights: are not the weights that alder has signed" in err
    assert not (folder / "predictions.csv").exists()
    assert tacit(*predict[:-2])[0] == 0  # without its certificate nobody can know


def test_predict_refuses_a_certificate_that_does_not_hold(folder, tacit):
    changed(folder / "c.json", lambda certificate: certificate["reports"].pop())
    code, _, err = tacit("predict", "alder.json", "new.csv", "--certificate", "c.json")
    assert (code, "reports: there is no report by cedar" in err) == (2, True)
    assert not (folder / "predictions.csv").exists()


def test_a_certificate_does_not_destroy_what_it_is_made_from(folder, tacit):
    for path in ("federation.toml", "alder.report.json"):
        assert "writing to it would destroy it" in tacit(*MAKE[:-1], path)[2]
    assert (
        "writing to it would destroy it"
        in tacit("predict", "alder.json", "new.csv", "--certificate", "c.json", "--out", "c.json")[2]
    )


def test_a_ledger_and_a_report_to_read(folder, tacit):
    verify = ("certificate", "verify", "c.json", "--ledger")
    code, out, err = tacit(*verify, "alder.ledger", "--ledger", "cedar.ledger", "--report", "c.html")
    assert (code, err) == (0, "")
    assert "- The ledger of alder adds up, has paid for this run" in out
    assert "- The ledger of cedar adds up, has paid for this run" in out
    page = (folder / "c.html").read_text()
    assert "a small study" in page
    assert "<script src" not in page
    assert tacit("ledger", "new", "second", "--population", "alder", "--epsilon", 1, "--delta", 1e-6)[0] == 0
    code, out, _ = tacit(*verify, "second", "--report", "bad.html")
    assert code == 1
    assert "fault: second: no report names this ledger" in out
    assert "no report names this ledger" in (folder / "bad.html").read_text()
    code, out, err = tacit(*verify, "alder.json")
    assert (code, out, err.count("\n")) == (2, "", 1)
    code, out, err = tacit("certificate", "verify", "c.json", "--report", "c.json")
    assert (code, "is an input" in err) == (2, True)
