"""How the papers' figures look: one colour a method, letters, ticks that do not collide, SVG."""

import itertools

import numpy as np
import pytest
from matplotlib import rcParams
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from tacit.lab.papers import drawing
from tacit.lab.papers.experiment import Panel, PaperFigure, Series, write_csv


def series(label, style="-", method=""):
    return Series.of(label, [1.0, 2.0], [1.0, 2.0], style, method)


def test_a_method_has_one_colour_whatever_the_figure_and_whatever_it_is_compared_with():
    alone = drawing.looks([series("R-ADMM")])["R-ADMM"]
    among = drawing.looks([series("γ = 1"), series("M-ADMM, one α"), series("R-ADMM", "o-"), series("DVP")])
    assert among["R-ADMM"] == alone == (drawing.COLOURS["R-ADMM"], "-")
    assert drawing.looks([series("[43], M-ADMM")])["[43], M-ADMM"][0] == among["M-ADMM, one α"][0]
    assert among["DVP"][0] == drawing.looks([series("ADMM (DVP)")])["ADMM (DVP)"][0]
    assert drawing.looks([series("stopped", method="R-ADMM")])["stopped"][0] == alone[0]
    assert drawing.looks([series("R-ADMM, η = 1", "k-")])["R-ADMM, η = 1"][0] == drawing.COLOURS["black"]


def test_the_colours_of_paper_000_are_the_papers():
    """Its text: green without noise, black ADMM, blue M-ADMM, red R-ADMM, magenta MR-ADMM."""
    names = ["ADMM, not private", "ADMM (DVP)", "M-ADMM, one α", "R-ADMM", "MR-ADMM"]
    red, green, blue = (
        np.array([int(drawing.looks([series(n)])[n][0][k : k + 2], 16) for n in names]) for k in (1, 3, 5)
    )
    assert green[0] > 2 * max(red[0], blue[0])
    assert red[1] == green[1] == blue[1] == 0
    assert blue[2] > 2 * max(red[2], green[2])
    assert red[3] > 5 * max(green[3], blue[3])
    assert min(red[4], blue[4]) > 5 * (green[4] + 1)


def test_no_two_curves_look_alike():
    names = ["PVP, released centre", "PVP, printed centre", "PVP, printed centre, C = 1750", "PVP, again"]
    given = [series(n, "o-") for n in names] + [series(f"γ = {k}") for k in range(9)] + [series("R-ADMM")]
    look = drawing.looks(given)
    assert len(set(look.values())) == len(look) == 14
    assert {look[n][0] for n in names} == {drawing.COLOURS["PVP"]}


LEGENDS = [
    ["Algorithm 1", "[43], M-ADMM", "[42], DVP", "[48], output perturbation"],
    ["Algorithm 1", "Algorithm 2*", "[45], gradient descent"],
    ["W-ADMM", "IPW-ADMM", "COCA", "I-ADMM", "PI-ADMM1", "PI-ADMM2"],
    ["I-ADMM", "Algorithm 2", "PI-ADMM1", "PI-ADMM1 with (15)"],
    ["ADMM, not private", "ADMM (DVP)", "M-ADMM, one α", "R-ADMM", "MR-ADMM"],
    ["ADMM", "AccADMM", "DP-ADMM", "DP-AccADMM"],
    ["ADMM, not private", *(f"q = {k}" for k in range(5))],
]


@pytest.mark.parametrize("names", LEGENDS, ids=lambda names: names[0] + str(len(names)))
def test_no_two_colours_of_a_legend_are_similar(names):
    look = drawing.looks([series(name) for name in names])
    pairs = itertools.combinations([colour for colour, _ in look.values()], 2)
    assert min(drawing.unlike(*pair) for pair in pairs) > 25


def test_the_distance_of_colours_is_that_of_cielab():
    """Known values: red is at (53.24, 80.09, 67.20), and these two greens were too near."""
    np.testing.assert_allclose(drawing._lab("#ff0000"), [53.24, 80.09, 67.20], atol=0.02)
    assert drawing.unlike("#2ca02c", "#41ab5d") < 25
    assert drawing.unlike("#1f77b4", "#0072b2") < 25


def test_seven_curves_and_panels_without_a_title_are_refused():
    with pytest.raises(ValueError, match="7 curves"):
        Panel("much", "x", "y", [series(str(k)) for k in range(7)])
    with pytest.raises(ValueError, match="no title"):
        Panel(" ", "x", "y", [], letter="a")


@pytest.mark.parametrize("shared", [True, False])
def test_legends_stand_beside_the_curves(shared):
    panels = [Panel(f"panel {k}", "x", "y", [series(f"a curve {0 if shared else k}")]) for k in range(3)]
    figure = drawing.panels_of(PaperFigure("title", panels))
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    legends = figure.legends if shared else [axes.get_legend() for axes in figure.axes]
    boxes = [legend.get_window_extent(canvas.get_renderer()) for legend in legends]
    assert len(boxes) == (1 if shared else 3)
    assert not any(box.overlaps(axes.bbox.shrunk(0.99, 0.99)) for box in boxes for axes in figure.axes)
    assert all(figure.bbox.x0 <= box.x0 and box.x1 <= figure.bbox.x1 for box in boxes)


def test_a_flat_curve_has_plain_numbers_on_its_axis():
    """Matplotlib by itself writes 1e-5+9.905e-1 above the axis."""
    flat = Series.of("accuracy", [1.0, 2.0, 3.0], [0.99051, 0.99052, 0.99053])
    figure = drawing.panels_of(PaperFigure("title", [Panel("accuracy", "x", "y", [flat])]))
    FigureCanvasAgg(figure).draw()
    (axes,) = figure.axes
    assert axes.yaxis.get_offset_text().get_text() == ""
    assert any(label.get_text().startswith("0.9905") for label in axes.get_yticklabels())


def overlapping(axes):
    """The pairs of neighbouring tick labels of either axis that touch."""
    canvas = FigureCanvasAgg(axes.figure)
    canvas.draw()
    found = []
    for axis, inside in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
        labels = [
            tick.label1
            for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks())
            if tick.label1.get_visible() and tick.label1.get_text() and inside[0] <= tick.get_loc() <= inside[1]
        ]
        boxes = [(label.get_text(), label.get_window_extent(canvas.get_renderer())) for label in labels]
        found += [(a, b) for (a, x), (b, y) in itertools.combinations(boxes, 2) if x.overlaps(y)]
        assert len(boxes) >= 2  # there is something to read
    return found


RANGES = [(0.5, 4.0), (0.34, 0.41), (0.01, 1.0), (1e-5, 30.0), (0.9, 1.2), (1e-9, 1e4), (200.0, 9000.0), (0.0022, 22.0)]


@pytest.mark.parametrize("log", [True, False])
@pytest.mark.parametrize(("low", "high"), [*RANGES, (1.01, 1.05), (1.0, 100.0), (10.0, 1000.0)])
def test_ticks_do_not_collide(low, high, log):
    points = np.geomspace(low, high, 5)
    panel = Panel("a title", "x", "y", [Series.of("curve", points, points, "o-")], log_x=log, log_y=log)
    figure = Figure(figsize=(3.6, 2.6), layout="constrained")
    axes = figure.subplots()
    drawing._draw(axes, panel, drawing.looks(panel.series))
    assert not overlapping(axes)


@pytest.mark.parametrize("points", [(25, 100, 400), (0.25, 0.5, 1), (0.01, 0.1, 0.5), (10, 33, 100, 300)])
def test_few_points_have_their_own_ticks(points):
    """Sweeps, whose axis had 50, 100 and 200 for T = 25, 100 and 400."""
    panel = Panel("a title", "x", "y", [Series.of("curve", points, np.ones(len(points)), "o-")], log_x=True)
    figure = Figure(figsize=(3.6, 2.6), layout="constrained")
    axes = figure.subplots()
    drawing._draw(axes, panel, drawing.looks(panel.series))
    assert not overlapping(axes)
    assert [tick.label1.get_text() for tick in axes.xaxis.get_major_ticks()] == [f"{point:g}" for point in points]


def test_a_legend_shows_enough_of_a_line_to_tell_dashes_from_dots_and_dashes():
    """A marker in the middle of a short line hides what tells them apart."""
    panel = Panel("a title", "x", "y", [series("PVP, growing penalty", "o-."), series("PVP, stopped", "o--")])
    figure = drawing.panels_of(PaperFigure("title", [panel]))
    FigureCanvasAgg(figure).draw()
    (axes,) = figure.axes
    lines = axes.get_legend().get_lines()
    assert [line.get_linestyle() for line in lines] == ["-.", "--"]
    for line, name in zip(lines, ("dashdot", "dashed"), strict=True):
        repeats = sum(rcParams[f"lines.{name}_pattern"]) * line.get_linewidth()
        assert np.ptp(line.get_xdata()) > repeats + line.get_markersize()


def test_the_check_of_ticks_sees_a_collision():
    """What matplotlib does with the range of Fig. 5's alphas: 3 x 10^0 and 4 x 10^0 on top of each other."""
    figure = Figure(figsize=(3.6, 2.6), layout="constrained")
    axes = figure.subplots()
    axes.loglog([0.5, 4.0], [0.5, 4.0])
    assert overlapping(axes)


def test_a_figure_is_a_picture_a_drawing_and_a_table_with_the_papers_letters(tmp_path):
    panel = Panel("α = 1", "t", "loss", [series("R-ADMM"), series("q = 1.01", "o")], letter="b")
    other = Panel("two\nlines", "t", "loss", [series("R-ADMM")])
    figure = PaperFigure("title", [panel, other])
    drawing.paper_figure(figure, tmp_path / "figure.png", tmp_path / "figure.svg", note="a note")
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")
    drawn = (tmp_path / "figure.svg").read_text(encoding="utf-8")
    assert "(b) α = 1" in drawn  # text, not outlines
    assert "R-ADMM" in drawn
    drawing.paper_figure(figure, tmp_path / "again.png", tmp_path / "again.svg", note="a note")
    assert (tmp_path / "again.svg").read_text(encoding="utf-8") == drawn  # no date, no random names
    write_csv(figure, tmp_path / "figure.csv")
    rows = (tmp_path / "figure.csv").read_text(encoding="utf-8").splitlines()
    assert rows[1].startswith("(b) α = 1,R-ADMM,")
    assert rows[-1].startswith("two lines,R-ADMM,")
