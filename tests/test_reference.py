"""The reference on the site says all that there is: commands, options, modules, events, exit codes, terms."""

import json
import re
import sys
from pathlib import Path
from typing import get_args

import pytest

from tacit.cli import COMMANDS, load
from tacit.errors import MachineError, NotNow, Over, TacitError
from tacit.privacy.events import Event
from tacit.privacy.ledger import BudgetExceeded

sys.path.append(str(Path(__file__).resolve().parent.parent / "tools"))
import layers
import notebooks
import reference

DOCS = reference.ROOT / "docs"
PAGES = reference.pages()


def commands(called, command):
    """Every command under a name, with its own name."""
    yield called, command
    for name, inner in getattr(command, "commands", {}).items():
        yield from commands(f"{called} {name}", inner)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_of_a_command_is_on_its_page(name):
    page = PAGES[f"reference/command-line/{name}.md"]
    _, *cut = re.split(r"^#+ (.*)$", page, flags=re.MULTILINE)
    parts = dict(zip(cut[::2], cut[1::2], strict=True))
    assert list(parts) == [called for called, _ in commands(f"tacit {name}", load(name))]
    for called, command in commands(f"tacit {name}", load(name)):
        for each in command.params:
            for option in each.opts if each.param_type_name == "option" and each.name != "help" else ():
                assert getattr(each, "hidden", False) != (f"\n`{option}`" in parts[called]), (called, option)
        examples = re.findall(r"^Example: `([^`]+)`", command.help or "", flags=re.MULTILINE)
        assert all(" ".join(each.split()) in parts[called] for each in examples)


def test_a_default_is_shown():
    graph = "file with the columns from and to. Default: `auto`.\n"
    assert graph in PAGES["reference/command-line/plan.md"]


def test_every_public_module_has_a_page_and_says_what_is_public():
    listed, there = reference.public_modules(), layers.modules()
    assert len(listed) > 15
    for module in listed:
        assert "\n__all__ = [" in there[module].read_text(encoding="utf-8"), module
        assert f"reference/python/{module}.md" in PAGES


def test_examples_in_docstrings_are_code():
    example = ">>> f(\n...     1)\n2"
    assert reference.as_markdown(f"A.\n\n{example}\n\nB >>> c") == f"A.\n\n```pycon\n{example}\n```\n\nB >>> c"
    assert reference.as_markdown("A:\n- b\n  c\n- d") == "A:\n\n- b\n  c\n- d"


def test_the_events_on_the_page_are_all_events():
    page = (DOCS / "reference" / "events.md").read_text(encoding="utf-8")
    shown = re.findall(r"^\| \[`(\w+)`\]\[tacit\.privacy\.events\.\1\]", page, flags=re.MULTILINE)
    assert sorted(shown) == sorted(each.__name__ for each in get_args(Event))


def test_a_notebook_is_shown_with_what_it_printed_and_drew(tmp_path):
    outputs = [
        {"output_type": "stream", "text": ["0.25\n"]},
        {"output_type": "display_data", "data": {"image/png": "AA==\n", "text/plain": ["<Figure>"]}},
        {"output_type": "execute_result", "data": {"text/plain": ["Run(2 agents)"]}},
    ]
    cells = [{"cell_type": "markdown", "source": ["# Title"]}, {"cell_type": "code", "source": ["1\n", "2"]}]
    cells[1]["outputs"] = outputs
    (tmp_path / "n.ipynb").write_text(json.dumps({"cells": cells}))
    drawn = '<img alt="What the code above has drawn" src="data:image/png;base64,AA==">'
    assert notebooks.page(tmp_path / "n.ipynb") == (
        f"# Title\n\n```python\n1\n2\n```\n\n```text\n0.25\n```\n\n{drawn}\n\n```text\nRun(2 agents)\n```\n"
    )


@pytest.mark.parametrize("page", ["stability.md", "deploy.md"])
def test_every_exit_code_is_in_the_tables(page):
    table = (DOCS / page).read_text(encoding="utf-8").split("[start:exit-codes]")[1].split("[end:exit-codes]")[0]
    codes = {0, 1, *(each.exit_code for each in (TacitError, MachineError, NotNow, Over, BudgetExceeded))}
    codes |= {130} if page == "stability.md" else set()  # Ctrl-C, which gives 75 for an agent
    assert {int(code) for code in re.findall(r"^\| (\d+) \|", table, flags=re.MULTILINE)} == codes


def test_a_glossary_has_every_term_once_and_in_order():
    text = (DOCS / "glossary.md").read_text(encoding="utf-8")
    terms = re.findall(r"^## (.+)$", text, flags=re.MULTILINE)
    assert len(terms) > 50
    assert terms == sorted(set(terms), key=str.casefold)
    assert set(re.findall(r"\]\(#([\w-]+)\)", text)) <= {term.replace(" ", "-") for term in terms}
