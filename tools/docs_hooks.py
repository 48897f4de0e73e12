"""What mkdocs does not do by itself when it builds the site; mkdocs.yml names this file.

- Pages of the reference come from the program itself (tools/reference.py).
- Files of the repository outside docs/ are part of the site, so that links to them lead somewhere; notebooks as pages.
- A formula becomes MathML, which browsers show without a script.
"""

from __future__ import annotations

import html
import os
import re
import sys
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

sys.path.append(str(Path(__file__).resolve().parent))
import notebooks
import reference

ROOT = reference.ROOT
DOCS = ROOT / "docs"
_LINK = re.compile(r"(?<=\]\()[^)\s#:]+(?=[)#])")
_FORMULA = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', flags=re.DOTALL)


def _outside() -> dict[str, Path]:
    """The files from outside docs/ by their paths in the site."""
    folders = ("[A-Z]*.md", "deploy/*", "examples/*.*", "examples/specs/*")
    found = [file for folder in folders for file in ROOT.glob(folder)]
    return {
        f"notebooks/{file.stem}.md" if file.suffix == ".ipynb" else f"project/{file.relative_to(ROOT)}": file
        for file in sorted(found)
        if file != ROOT / "README.md"
    }


_FROM = _outside()
_TO = {file: path for path, file in _FROM.items()}
_MADE = reference.pages() | {path: notebooks.page(file) for path, file in _FROM.items() if file.suffix == ".ipynb"}


def on_config(config: Any) -> Any:
    """Fills in the folders of the navigation."""
    config.nav = _entries(config.nav)
    return config


def _entries(nav: list[Any]) -> list[Any]:
    found = []
    for entry in nav:
        title, target = next(iter(entry.items())) if isinstance(entry, dict) else (None, entry)
        if isinstance(target, list):
            found.append({title: _entries(target)})
        elif target.endswith("/"):
            found.append({title: [{_title(text): path} for path, text in _MADE.items() if path.startswith(target)]})
        else:
            found.append(entry)
    return found


def _title(text: str) -> str:
    """`# tacit train`, or `::: tacit.losses`."""
    return text.splitlines()[0].lstrip("#: ")


def on_files(files: Files, config: Any) -> Files:
    """Adds the pages that are made, and the files from outside docs/."""
    for path, text in _MADE.items():
        files.append(File.generated(config, path, content=text))
    for path, file in _FROM.items():
        if path not in _MADE:
            files.append(File.generated(config, path, abs_src_path=str(file)))
    return files


def on_page_markdown(markdown: str, page: Page, config: Any, files: Files) -> str:
    """Leads links from and to files outside docs/ to where they are in the site."""
    here = page.file.src_uri
    source = _FROM.get(here, DOCS / here)

    def moved(link: re.Match[str]) -> str:
        target = Path(os.path.normpath(source.parent / link[0]))
        path = _TO.get(target) or (str(target.relative_to(DOCS)) if target.is_relative_to(DOCS) else None)
        return link[0] if path is None else os.path.relpath(path, Path(here).parent)

    return _LINK.sub(moved, markdown)


def on_page_content(content: str, page: Page, config: Any, files: Files) -> str:
    """Makes MathML of formulas."""

    def shown(formula: re.Match[str]) -> str:
        made = convert(html.unescape(formula[2]), display="block" if formula[1] == "div" else "inline")
        if "\\" in made or "&#x0005C;" in made:
            raise PluginError(f"{page.file.src_uri}: no MathML for all of {formula[2].strip()}")
        return f'<{formula[1]} class="arithmatex">{made}</{formula[1]}>'

    return _FORMULA.sub(shown, content)
