"""Pictures for notebooks: they show what is there, escape it, and keep quiet about private runs."""

import xml.etree.ElementTree as ET

import numpy as np
import pytest
from conftest import make_parts

import tacit
from tacit import html
from tacit.data import Classes, Dataset, Multiclass, Number, Schema
from tacit.losses import Logistic, Multinomial
from tacit.model import Model


def drawn(thing):
    """The picture, which must be well-formed."""
    return ET.fromstring(thing if isinstance(thing, str) else thing._repr_html_())


def words(thing):
    return " ".join(drawn(thing).itertext())


@pytest.mark.parametrize("noise", [None, tacit.SecureNoise()], ids=["exact", "private"])
def test_a_run_shows_how_it_went_unless_it_is_private(noise):
    problem, graph = tacit.Problem(make_parts(), l2=0.5), tacit.Graph.ring(5)
    method = tacit.algorithms.ConsensusADMM()
    if noise is not None:
        method = tacit.algorithms.GradientDescent(step=0.5, mixing=graph.mixing, budget=tacit.Gaussian(50.0))
    run = tacit.simulate(method, problem, graph, rounds=8, noise=noise)
    assert f"private {run.private}" in words(run).replace("  ", " ")
    lines = drawn(run).findall(".//{*}polyline")
    assert len(lines) == (2 if noise is None else 0)
    if noise is None:
        loss = run.history["model_loss"]
        assert f"model loss: {loss[0]:.4g} to {loss[-1]:.4g}" in words(run)
        heights = [float(point.split(",")[1]) for point in lines[0].get("points").split()]
        assert len(heights) == 9
        assert heights[0] == min(heights)  # the highest point of the picture: y grows downwards


def test_a_plan_shows_what_each_agent_pays():
    facts = tacit.Facts(sizes=[400] * 3, dimension=4, l2=0.1)
    method = tacit.algorithms.DualPerturbedADMM(penalty=0.1, budget=tacit.Pure(0.1))
    plan = tacit.plan(method, facts, tacit.Graph.ring(3), rounds=4)
    cells = [cell.text for cell in drawn(plan).findall(".//td")]
    assert cells == [text for agent in range(3) for text in (str(agent), "4 Pure", f"{plan.epsilon(1e-5):.4g}")]


def test_a_data_set_shows_its_shape_and_labels():
    X, names, kept = np.ones((4, 2)), ("a", "b"), np.arange(4)
    assert "rows 4" in words(Dataset(X, None, names, kept)).replace("  ", " ")
    two = Dataset(X, np.array([1.0, -1.0, -1.0, -1.0]), names, kept)
    assert [float(bar.get("width")) for bar in drawn(two).findall(".//{*}rect")] == [140.0, 46.7]
    many = Dataset(np.ones((30, 2)), np.linspace(-1, 1, 30), names, np.arange(30))
    assert "numbers from -1 to 1" in words(many)


def test_a_model_shows_its_largest_weights_by_name():
    columns = tuple(Number(name, bounds=(0, 1)) for name in ("<script>", "b", "c"))
    label = Classes("died & buried", positive=("yes",), negative=("no",))
    model = Model(
        np.array([0.5, 0.0, -3.0]), Schema(label=label, columns=columns), Logistic(), {}, {"statement": "not private"}
    )
    assert "<script>" not in model._repr_html_()
    text = words(model)
    assert text.index("c") < text.index("<script>")
    assert "died & buried" in text
    assert "not private" in text
    several = Schema(label=Multiclass("ward", classes=("x", "y", "z")), columns=columns)
    assert "b (y)" in words(Model(np.eye(3), several, Multinomial(3)))


def test_odd_numbers():
    assert html.line("loss", []) == html.line("loss", [1.0]) == html.line("loss", [np.nan, 1.0]) == ""
    assert (
        len(drawn(html.line("loss", np.arange(1.0, 5001.0).tolist())).find("{*}polyline").get("points").split()) <= 400
    )
    drawn(html.line("loss", [0.0, 0.0, np.inf]))
    drawn(html.bars(["a" * 50, "b"], [0.0, 0.0]))
