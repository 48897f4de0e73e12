"""The command `tacit reproduce`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from tacit.cli import names, options
from tacit.cli.console import err, warn, work_bar
from tacit.cli.console import out as screen
from tacit.engines import Engine, Local
from tacit.errors import InputError
from tacit.files import replacing, writable
from tacit.lab import listings
from tacit.lab.papers import dp_admm, dynamic_dp, incremental_admm, local_dp, recycled_admm
from tacit.lab.papers.experiment import FULL, QUICK, Claim, Figures, Lab, Size, claims_page, write_csv

PAPERS: dict[str, Figures] = {
    "recycled-admm": recycled_admm.FIGURES,
    "dynamic-dp": dynamic_dp.FIGURES,
    "dp-admm": dp_admm.FIGURES,
    "incremental-admm": incremental_admm.FIGURES,
    "local-dp": local_dp.FIGURES,
}


def reproduce(
    paper: Annotated[str, typer.Argument(help=f"One of: {', '.join(PAPERS)}.", show_default=False)],
    figures: Annotated[list[str] | None, typer.Argument(help="For example fig1 fig5; all by default.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer runs, iterations and settings: takes minutes.")] = False,
    out: Annotated[Path, typer.Option(help="Folder for the figures; created if needed.")] = Path("out/papers"),
    data_dir: Annotated[Path | None, typer.Option(help="Folder of the data sets that tacit does not ship.")] = None,
    jobs: options.Jobs = None,
    engine: options.EngineName = "local",
    address: options.Address = None,
) -> None:
    """Reproduce the figures of a paper, and check its claims.

    The command writes each figure as .png, .svg and .csv (mean, smallest and largest value of the runs), and a table of
    the claims: what is claimed, what was measured, and whether it holds. Nothing of this is private: the noise is
    seeded.

    Example: `tacit reproduce recycled-admm fig5 --quick --out out/papers`
    """
    where = names.engine(engine, jobs, address)
    known = names.pick(PAPERS, paper, "paper")
    wanted = list(dict.fromkeys(figures or known))
    for name in wanted:
        names.pick(known, name, f"figure of {paper}")
    if data_dir is not None and not data_dir.is_dir():
        raise InputError(f"--data-dir {data_dir} is not a folder; leave it out to use only the data shipped with tacit")
    command = "tacit " + shlex.join(_command(paper, figures, quick)) + (" --data-dir DIR" if data_dir else "")
    run(paper, wanted, QUICK if quick else FULL, out, command, data_dir, where)


def run(
    paper: str,
    wanted: list[str],
    size: Size,
    out: Path,
    command: str,
    data_dir: Path | None = None,
    engine: Engine | None = None,
) -> list[Claim]:
    """Makes the figures, writes them and their claims, and shows the claims.

    paper, wanted, size : the paper, its figures, and how much work to do
    out, command : the folder to write to, and the command line that the page of claims names
    data_dir : the folder of the data sets that tacit does not ship
    engine : where the runs happen; by default in this process
    """
    names.require_plot()
    names.folder(out)
    pictures = {name: out / f"{paper}-{name}.png" for name in wanted}
    page = out / f"{paper}-claims.md"
    for path in (*(p.with_suffix(end) for p in pictures.values() for end in (".png", ".svg", ".csv")), page):
        writable(path)
    from tacit.lab.papers import drawing  # matplotlib is slow to import: not for --help

    note = "" if size == FULL else f"{size.name}: {size.runs} runs of {size.rounds} iterations, fewer settings"
    title = f"{paper}: what is claimed, and what was measured" + (f" ({note})" if note else "")
    claims: list[Claim] = []
    notes: dict[str, None] = {}  # each once, in order
    with work_bar() as tell, (engine or Local(jobs=1)).open() as workers:
        lab = Lab(size, lambda what, *told: tell(f"{place}: {what}", *told), data_dir, workers)
        for k, name in enumerate(wanted):
            place = f"{paper} {name} ({k + 1} of {len(wanted)})"
            figure = PAPERS[paper][name](lab)
            drawing.paper_figure(figure, pictures[name], pictures[name].with_suffix(".svg"), note=note)
            write_csv(figure, pictures[name].with_suffix(".csv"))
            claims += figure.claims
            for text in figure.notes:
                if text not in notes:
                    warn(text)
                notes[text] = None
            with replacing(page) as draft:  # after every figure, so that a run you stop keeps its results
                draft.write_text(claims_page(claims, title, command, list(notes)), encoding="utf-8")
            err.print(f"wrote {pictures[name]}, .svg and .csv", markup=False, soft_wrap=True)
    screen.print(listings.claims(claims))
    err.print(f"wrote {page}", markup=False, soft_wrap=True)
    return claims


def _command(paper: str, figures: list[str] | None, quick: bool) -> list[str]:
    return ["reproduce", paper, *(figures or []), *(["--quick"] if quick else [])]
