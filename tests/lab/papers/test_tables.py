"""The table of each paper in docs/papers: it has every statement, and all that it names is there and works."""

import pkgutil
import re
import sys
from pathlib import Path

import pytest

from tacit.lab.cli.reproduce import PAPERS

sys.path.append(str(Path(__file__).parents[3] / "tools"))
import claims as measured

ROOT = Path(__file__).parents[3]
PAGES = {paper: (ROOT / "docs" / "papers" / f"{paper}.md").read_text(encoding="utf-8") for paper in PAPERS}
STATED = {  # all that the papers number, from their texts
    "recycled-admm": [
        *(
            "Algorithm 1",
            "Algorithm 2",
            "Algorithm 3",
            "Lemma 3 of [26]",
            "Lemma IV.1",
            "Theorem IV.1",
            "Definition V.1",
        ),
        *(f"Assumption {k}" for k in range(1, 6)),
        *("Lemma V.1", "Theorem V.1", "Theorem VI.1", "Theorem VI.2", "Lemma E.1", "Lemma E.2", "Lemma E.3"),
        *("Section VII.B", "Section VII.C", "Section VIII.B"),
        *(f"Fig. {k}" for k in range(1, 6)),
    ],
    "dp-admm": [
        *("Algorithm 1", "Algorithm 2", "Algorithm 3", "Assumption 1", "Assumption 2", "Theorem 1", "Theorem 2"),
        *(f"Definition {k}" for k in range(1, 7)),
        *(f"Lemma {k}" for k in range(1, 8)),
        *("(11)", "Table I", "Fig. 1", "Fig. 2"),
    ],
    "incremental-admm": [
        *(f"Algorithm {k}" for k in range(1, 5)),
        *("Assumption 1", "Assumption 2", "Definition 1", "Theorem 1", "Theorem 2", "Theorem 3", "Corollary 1"),
        *(f"Lemma {k}" for k in range(1, 5)),
        *(f"Remark {k}" for k in range(1, 5)),
        *(f"Fig. {k}" for k in range(1, 7)),
        *("(8)", "(21)"),
    ],
    "local-dp": [
        *("Algorithm 1", "Algorithm 2", "Algorithm 2*", "Algorithm 3", "Definition 1", "Lemma 2.1"),
        *(f"Theorem {k}" for k in ("2.1", "2.2", "2.3", "3.1", "3.2", "3.3", "3.4", "4.1", "4.2")),
        *(f"Fig. {k}" for k in "12ABCD"),
        *("(1)", "(3)", "(12)", "(13)", "(72)", "(74)"),
    ],
    "dynamic-dp": [
        *("Algorithm 1", "Algorithm 2", "Algorithm 3", "Definition 1", "Definition 4"),
        *(f"Assumption {k}" for k in (1, 2, 3, 7, 8, 16)),
        *(f"Theorem {k}" for k in (5, 6, 9, 10, 12, 13)),
        *(f"Corollary {k}" for k in (11, 14, 15)),
        *(f"Lemma {k}" for k in range(17, 21)),
        *(f"Table {k}" for k in ("I", "II", "III")),
        *(f"Fig. {k}" for k in range(1, 6)),
        *("(28)", "[5, Lemma 1]", "[5, Lemma 2]"),
    ],
}


def cells(line):
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def table(page, first):
    """The rows of the table that begins so, as dictionaries."""
    lines = page[page.index(f"| {first} |") :].split("\n\n")[0].splitlines()
    head = cells(lines[0])
    assert all(len(cells(line)) == len(head) for line in lines)
    return [dict(zip(head, cells(line), strict=True)) for line in lines[2:]]


ROWS = {paper: table(page, "statement") for paper, page in PAGES.items()}
each_paper = pytest.mark.parametrize("paper", PAPERS)


def labels(statement):
    return re.split(r"[,;] (?![^\[]*\])", statement)


def about(where, statement):
    """Whether a claim, by where it is made, belongs to a row."""
    return any(re.fullmatch(re.escape(label) + r"(?![\w.*]).*", where) for label in labels(statement))


@each_paper
def test_every_statement_of_the_paper_has_a_row(paper):
    known = [label for row in ROWS[paper] for label in labels(row["statement"])]
    missing = [one for one in STATED[paper] if not any(re.match(re.escape(one) + r"(?![\w.*])", k) for k in known)]
    assert missing == []
    assert [row["statement"] for row in ROWS[paper] if not all(row.values())] == []


@each_paper
def test_every_file_and_every_name_is_there(paper):
    for row in ROWS[paper]:
        for path in re.findall(r"`(.+?)`", row["file in `src/tacit`"]):
            assert (ROOT / "src" / "tacit" / path).is_file(), path
        for name in re.findall(r"`(.+?)`", row["Python"]):
            head, _, last = name.rpartition(".")
            assert callable(getattr(pkgutil.resolve_name(head), last)), name
        for path in re.findall(r"`(tests/.+?)`", row["verdict"]):
            assert (ROOT / path).is_file(), path


def test_every_run_of_a_paper_is_in_a_table():
    named = {name for page in PAGES.values() for name in re.findall(r"examples/specs/([\w-]+\.toml)", page)}
    specs = {path.name for path in (ROOT / "examples" / "specs").glob("*.toml")}
    assert named <= specs
    assert {name for name in specs if not name.startswith("ours-")} <= named


COMMANDS = sorted({c for rows in ROWS.values() for row in rows for c in re.findall(r"`(tacit .+?)`", row["command"])})


@pytest.mark.parametrize("command", [c for c in COMMANDS if c.startswith("tacit plan") and "FILE" not in c])
def test_a_plan_that_a_table_names_is_made(command, tacit, monkeypatch):
    monkeypatch.chdir(ROOT)
    _, *words = command.split()
    code, out, err = tacit(*words)
    assert code == 0, err
    said = re.findall(r"^(?:Theorem|Lemma|\(74\)).*$", out, re.MULTILINE)
    assert "--theory" not in words or any("says nothing" not in line for line in said), out


def test_figures_attacks_and_audits_that_a_table_names_exist(tacit):
    named = [c.split()[1:] for c in COMMANDS]
    figures = [words for words in named if words[0] == "reproduce" and "--data-dir" not in words]
    assert {tuple(words[1:]) for words in figures} >= {(p, f) for p in PAPERS for f in PAPERS[p] if f != "fusing"}
    assert all(figure in PAPERS[paper] for _, paper, figure in figures)
    for kind in ("attack", "audit"):
        _, _, told = tacit(kind, "nothing-of-the-kind")
        for words in named:
            assert words[0] != kind or words[1] in told, words
    assert {words[0] for words in named} == {"attack", "audit", "coalition", "federation", "plan", "reproduce", "train"}


@pytest.mark.parametrize("command", [c for c in COMMANDS if not c.startswith("tacit plan") or "FILE" in c])
def test_options_that_a_table_names_exist(command, tacit):
    _, *words = command.split()
    of = words[:2] if words[0] == "federation" else words[:1]
    code, told, _ = tacit(*of, "--help")
    assert code == 0
    assert [word for word in words if word.startswith("--") and not re.search(re.escape(word) + r"\b", told)] == []


@each_paper
def test_verdicts_are_those_of_the_claims(paper):
    """Each claim is counted in a row, and each count is that of the table of claims."""
    claims, rows = table(PAGES[paper], "where"), ROWS[paper]
    counting = [row for row in rows if re.search(r"of (the paper|ours): ", row["verdict"])]
    for row in counting:
        mine = [c for c in claims if about(c["where"], row["statement"])]
        for whose, of in (
            ("the paper", [c for c in mine if c["whose claim"].startswith("paper")]),
            ("ours", [c for c in mine if not c["whose claim"].startswith("paper")]),
        ):
            verdicts = [list(c.values())[-1].strip("*") for c in of]
            expected = ", ".join(
                f"{v} {verdicts.count(v)}" for v in ("holds", "does not hold", "undecided") if v in verdicts
            )
            assert (f"of {whose}: {expected}" in row["verdict"]) == bool(of), row
    assert [c["where"] for c in claims if not any(about(c["where"], row["statement"]) for row in counting)] == []


@each_paper
def test_a_page_shows_what_was_measured(paper):
    """`python tools/claims.py` writes it."""
    found = (measured.FOLDER / f"{paper}-claims.md").read_text(encoding="utf-8")
    assert measured.page(PAGES[paper], found) == PAGES[paper]
    another = found.replace("| holds |", "| undecided |", 1)
    assert measured.page(PAGES[paper], another) != PAGES[paper]
