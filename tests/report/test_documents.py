"""Reports to read: one file that needs nothing else, says what the data says, and escapes what others wrote."""

import copy
import json
import re
from html.parser import HTMLParser

import jinja2
import jinja2.meta
import pytest
from documents import CERTIFICATE, COMPARISON, DOCUMENTS, LEDGER, SHARED, at, evil, same

from tacit.html.pictures import MOST_MEMBERS
from tacit.report.pages import certificate, comparison, ledger, run
from tacit.report.rendering import POLICY, environment

VOID = {"meta", "link", "br"}


class Read(HTMLParser):
    """The elements of a document, its text, its data, and its numbers by their place in the data."""

    def __init__(self, text):
        super().__init__()
        self.open, self.elements, self.words, self.shown, self.data = [], [], [], {}, None
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, name, attributes):
        self.elements.append((name, dict(attributes)))
        if name not in VOID:
            self.open.append((name, dict(attributes)))

    handle_startendtag = handle_starttag

    def handle_endtag(self, name):
        assert self.open.pop()[0] == name

    def handle_data(self, text):
        name, attributes = self.open[-1] if self.open else ("", {})
        if name == "script":
            self.data = json.loads(text)
        elif name != "style":
            self.words.append(text)
        if "data-of" in attributes:
            self.shown[attributes["data-of"]] = text


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_document_stands_alone(name):
    text = DOCUMENTS[name][0](DOCUMENTS[name][1])
    found = Read(text)
    assert text.startswith('<!doctype html>\n<html lang="en">')
    assert ("meta", {"http-equiv": "Content-Security-Policy", "content": POLICY}) in found.elements
    assert [attributes.get("type") for kind, attributes in found.elements if kind == "script"] == ["application/json"]
    for kind, attributes in found.elements:
        assert not {key for key in attributes if key.startswith("on") or key in ("src", "action")}
        assert attributes.get("href", "data:,") == "data:,", kind
    assert re.findall(r"https?://[^\"]+", text) == ["http://www.w3.org/2000/svg"] * text.count("<svg ")  # a name space
    assert text.count("<svg ") == text.count('role="img"')


@pytest.mark.parametrize("name", DOCUMENTS)
def test_the_numbers_are_those_of_the_data(name):
    found = Read(DOCUMENTS[name][0](DOCUMENTS[name][1]))
    assert len(found.shown) >= 3
    for path, text in found.shown.items():
        assert same(text, at(found.data, path)), (path, text)
        if path.endswith(("epsilon", "spent", "total")) and text != "no bound":
            assert float(text) >= at(found.data, path) * (1 - 1e-12)
        if path.endswith("left"):
            assert float(text) <= at(found.data, path)


def test_a_setting_with_parts_is_shown_in_words():
    make, plain = DOCUMENTS["run"]
    words = Read(make(plain | {"settings": plain["settings"] | {"budget": {"multiplier": 2.5, "centre": None}}})).words
    assert "multiplier 2.5, centre none" in words


@pytest.mark.parametrize("name", DOCUMENTS)
def test_hostile_names_stay_text(name):
    make, plain = DOCUMENTS[name]
    honest, hostile = Read(make(plain)), Read(make(evil(plain)))
    assert [kind for kind, _ in hostile.elements] == [kind for kind, _ in honest.elements]
    assert any("<script>" in words for words in hostile.words)
    assert "<script>" in json.dumps(hostile.data)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_template_is_given_every_name_that_it_uses(name, monkeypatch):
    """In branches, too, that this data does not reach."""
    rendered, render = [], jinja2.Template.render

    def watched(template, *args, **kwargs):
        rendered.append((template.name, dict(*args, **kwargs)))
        return render(template, *args, **kwargs)

    monkeypatch.setattr(jinja2.Template, "render", watched)
    DOCUMENTS[name][0](DOCUMENTS[name][1])
    ((template, given),) = rendered
    made = environment()
    known = given.keys() | made.globals.keys() | set(dir(made.get_template("macros.html").module))
    for each in (template, "base.html"):
        used = jinja2.meta.find_undeclared_variables(made.parse(made.loader.get_source(made, each)[0]))
        assert len(used) >= 3
        assert used - known == set()


def words(text):
    return " ".join("".join(Read(text).words).split())


def test_a_private_run_in_plain_words():
    said = words(run(DOCUMENTS["run"][1]))
    assert "from 50% to at most 73.11%" in said
    assert "3 members with 800 records took part" in said
    assert "holds against all other members together" in said
    assert "What birch said was moved at 4 ticks" in said
    assert "dogwood dropped out" in said


def test_shared_noise_shows_every_coalition():
    said = words(run(SHARED))
    assert "Any one of the 3 other members, with all that it knows, can improve a guess" in said
    assert "1 (agreed)" in said
    assert "22.15589.62%" in said  # the cells of one line of the table


def test_a_run_without_privacy_says_so_first():
    text = run(DOCUMENTS["exact"][1])
    said = words(text)
    assert said.index("Not private. Exact values were exchanged") < said.index("Who took part")
    assert "epsilon" not in said
    assert "error 0.15" in said


def test_many_members():
    plain = copy.deepcopy(DOCUMENTS["run"][1])
    for n in (1, 2, 13, MOST_MEMBERS, MOST_MEMBERS + 1, 300):
        plain["agents"] = [{"name": f"member {k}", "rows": 10} for k in range(n)]
        plain["edges"] = [[k, (k + 1) % n] for k in range(n)] if n > 2 else [[0, 1]][: n - 1]
        text = run(plain)
        assert text.count("<circle") == (n if 2 <= n <= MOST_MEMBERS else 0)
        assert ("too many members" in text) == (n > MOST_MEMBERS)


def test_a_ledger_says_how_long_it_lasts():
    said = words(ledger(LEDGER))
    assert "enough for eleven more runs like the last one" in said
    assert "0.93 of 2 is spent" in said
    assert "raised after the board" in said
    assert "any 2 members together" in said
    assert "Any 2 members, with all that they know, can improve a guess" in said
    adaptive = words(ledger(LEDGER | {"counted_by": "filter"}))
    assert "With all runs that the cap allows" in adaptive
    assert "says what fits" in adaptive or "says only what still fits" in adaptive
    assert "Somebody who is no member" in words(ledger(LEDGER | {"colluders": 0}))


def test_a_ledger_of_which_little_is_known():
    unknown = dict.fromkeys(("cap", "spent", "left", "colluders", "cohorts", "forecast"))
    said = words(ledger(LEDGER | unknown | {"caps": [], "files": [], "runs": []}))
    assert "no cap yet" in said
    assert "No run has been paid for yet" in said
    assert "not enough for another run" in words(ledger(LEDGER | {"forecast": {"run": "spring", "more": 0}}))
    one = LEDGER | {"runs": LEDGER["runs"][:1], "caps": LEDGER["caps"][:1]}
    assert 'class="spent"' in ledger(one)
    assert 'class="spent"' in ledger(one | {"runs": [one["runs"][0] | {"when": "long ago"}]})


def test_a_certificate():
    said = words(certificate(CERTIFICATE))
    assert "Valid. Everything that was given to the check holds." in said
    assert "from 50% to at most 73.11%" in said
    bad = CERTIFICATE | {"valid": False, "faults": [{"where": "alder.report.json", "what": "it was changed"}]}
    said = words(certificate(bad))
    assert "Not valid. The check found 1 fault." in said
    assert "it was changed" in said
    assert "from 50%" not in said
    assert "not private" in words(certificate(CERTIFICATE | {"epsilon": None, "delta": None}))


def test_a_comparison_says_that_it_is_not_private():
    said = words(comparison(COMPARISON))
    assert "Nothing in this report is private" in said
    assert "Recommended: pvp" in said
