"""The examples in the documents run as shown; those of tutorials, how-tos and notebooks in tests/test_pages.py."""

import doctest
import re
import runpy
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parent.parent / "tools"))
import words

ROOT = Path(__file__).parent.parent


def test_the_readme_is_short():
    """What it leaves out is on a page of its own."""
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 120


@pytest.mark.parametrize("example", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: path.name)
def test_examples(example, capsys):
    runpy.run_path(str(example), run_name="__main__")
    assert "private: False" in capsys.readouterr().out


def test_the_schema_in_the_docs_is_a_schema(tmp_path):
    from tacit.data import Schema

    text, *labels = re.findall(r"```toml\n(.*?)```", (ROOT / "docs" / "files.md").read_text(), flags=re.DOTALL)
    (tmp_path / "schema.toml").write_text(text)
    assert Schema.from_toml(tmp_path / "schema.toml").dimension == 3 + 1 + 2 + 1
    columns = 'version = 1\n[[columns]]\nname = "x"\nkind = "number"\nbounds = [0, 1]\n'
    assert len(labels) == 3
    for label in labels:
        (tmp_path / "schema.toml").write_text(columns + label)
        assert Schema.from_toml(tmp_path / "schema.toml").label.column in label


def test_the_examples_of_the_page_on_secret_sharing():
    failed, tried = doctest.testfile(str(ROOT / "docs" / "secret-sharing.md"), module_relative=False)
    assert tried > 0
    assert failed == 0


def test_links_lead_somewhere():
    links = [
        (page, target)
        for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text())
    ]
    assert len(links) > 100
    for page, target in links:
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_pages_are_laid_out_for_the_site():
    """Its Markdown wants a blank line before a heading, and four blanks before what is inside an item of a list."""
    for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]:
        text = re.sub(r"^( *)```.*?^\1```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
        wrong = re.findall(r"(?<=[^\n]\n)#+ .*|(?<=\n\n) {1,3}\S.*|^ {1,3}[-*|] .*", text, flags=re.MULTILINE)
        assert wrong == [], f"{page.name}: {wrong[0]}"


@pytest.mark.parametrize("claims", sorted((ROOT / "docs" / "papers").glob("*-claims.md")), ids=lambda path: path.name)
def test_the_page_of_a_paper_has_the_claims_as_they_were_measured(claims):
    """And the figures that the command made, each small enough for a page."""
    paper = claims.name.removesuffix("-claims.md")
    page = (ROOT / "docs" / "papers" / f"{paper}.md").read_text(encoding="utf-8")
    made = claims.read_text(encoding="utf-8")
    assert made[made.index("| where") :] in page
    for picture in (ROOT / "docs" / "papers").glob(f"{paper}-*.png"):
        assert picture.name in page
        assert picture.stat().st_size < 150_000


def test_what_the_counter_of_words_leaves_out(tmp_path):
    page = "# One\n\ntwo, three - four\n\n```sh\nnot me\n```\n\n    nor me\n\n- five\n\n    six\n\n"
    made = "<!-- exact: made by `x` -->\n| nor | me |\n<!-- end -->\n\n<!-- nor me -->\nseven\n\n| eight | 9 |\n"
    for folder, expected in {"evidence": 7, "how-to": 9}.items():
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "page.md").write_text(page + made)
        assert words.count(tmp_path / folder / "page.md", tables=False) == 7
        assert words.count(tmp_path / folder / "page.md", tables=True) == expected


def test_the_docs_are_short_enough_to_be_read():
    pages = words.pages()
    assert len(pages) > 40
    assert sum(words.count(page, tables=False) for page in pages) <= words.LIMIT
    assert sum(words.count(page, tables=True) for page in pages) <= words.LIMIT_WITH_TABLES
