"""A PNG keeps the colours of its lines, also of one that is hidden behind another and shows in the legend only."""

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from PIL import Image

from tacit.report import canvas


def test_a_colour_of_few_pixels_survives(tmp_path):
    figure = canvas.figure(13.0, 7.0, "six methods, one hidden")
    x = np.arange(60.0)
    grid = figure.subplots(2, 3)
    for axes in grid.ravel():
        for i in range(6):
            y = np.ones(60) if i in (1, 2) else np.exp(-x / 30 * (i + 1))
            axes.plot(x, y, color=f"C{i}", lw=1.5)
            axes.fill_between(x, 0.3 * y, 2 * y, color=f"C{i}", alpha=0.15, lw=0)
        axes.set_yscale("log")
    figure.legend(grid[0, 0].get_lines(), [f"method {i}" for i in range(6)], loc="outside lower center", ncols=6)
    canvas.save(figure, tmp_path / "figure.png", dpi=100)
    saved = np.asarray(Image.open(tmp_path / "figure.png").convert("RGB")).astype(int)
    agg = FigureCanvasAgg(figure)
    agg.draw()
    drawn = np.asarray(Image.fromarray(np.asarray(agg.buffer_rgba())).convert("RGB"))
    median = np.asarray(Image.fromarray(drawn).quantize(256).convert("RGB")).astype(int)
    hidden = np.round(np.array(to_rgb("C1")) * 255)
    where = np.all(drawn == hidden, axis=2)
    assert 0 < where.sum() < 500  # in the legend
    assert np.abs(median[where] - hidden).max() > 40  # what median cut makes of it
    assert np.abs(saved - drawn.astype(int)).max() <= 24
