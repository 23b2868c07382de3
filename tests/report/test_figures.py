"""Figures: their colours, their labels, and files that are the same for the same figure."""

from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest

import pdmm
from pdmm.report import network_figures, paper_figures
from pdmm.report.figures import COLOURS, convergence, look, save
from pdmm.report.network_figures import Strip, snapshots
from pdmm.report.paper_figures import Curve, Panel, grid

mpl.use("Agg")
PNG, SVG = b"\x89PNG", b"<?xml"


@pytest.fixture(autouse=True)
def no_figure_is_left_open() -> Any:
    plt.close("all")
    with mpl.rc_context():
        yield
    assert plt.get_fignums() == []


def test_a_method_has_one_colour_and_its_variants_are_dashed() -> None:
    plain, variant = look("AGPDMM"), look("AGPDMM, rho = 3")
    assert plain["color"] == variant["color"] == COLOURS["AGPDMM"]
    assert plain["linestyle"] == "-"
    assert variant["linestyle"] == look("AGPDMM, proven")["linestyle"] != "-"
    assert look("Inexact FedSplit, from x_s")["linestyle"] != variant["linestyle"]
    assert look("PDMM = FedSplit")["color"] == COLOURS["PDMM"]
    assert look("a new one")["color"] not in COLOURS.values()


def test_what_others_lie_upon_stays_visible_below_them() -> None:
    exact: Any = look("PDMM")
    above: Any = look("AGPDMM")
    assert exact["linewidth"] > above["linewidth"]
    assert exact["zorder"] < above["zorder"]


def test_the_same_figure_is_the_same_files(tmp_path: Path) -> None:
    def drawn(folder: str) -> list[Path]:
        figure, axis = plt.subplots()
        axis.plot([1, 2], [3, 4], label="a curve")
        figure.legend()
        return save(figure, tmp_path / folder / "fig")

    first, second = drawn("one"), drawn("two")
    assert [path.name for path in first] == ["fig.png", "fig.svg"]
    assert [path.read_bytes()[:4] for path in first] == [PNG, SVG[:4]]
    for one, two in zip(first, second, strict=True):
        assert one.read_bytes() == two.read_bytes()


@pytest.mark.parametrize(("suffix", "begins"), [("png", PNG), ("svg", SVG)])
def test_convergence_of_some_runs(suffix: str, begins: bytes, tmp_path: Path) -> None:
    problem = pdmm.Quadratic(1.0, np.arange(6.0).reshape(3, 2))
    results = {
        "PDMM": pdmm.solve(problem, pdmm.PDMM(1.0), 5),
        "gradient descent": pdmm.solve(problem, pdmm.GradientDescent(0.1), 5),
    }
    path = convergence(results, "Averages", tmp_path / "new" / f"fig.{suffix}")
    assert path == tmp_path / "new" / f"fig.{suffix}"
    assert path.read_bytes().startswith(begins)


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The figures that were to be written."""
    figures: list[Any] = []

    def keep(figure: Any, stem: Path) -> list[Path]:
        figure.canvas.draw()
        figures.append(figure)
        plt.close(figure)
        return [stem.with_suffix(".png")]

    monkeypatch.setattr(paper_figures, "save", keep)
    monkeypatch.setattr(network_figures, "save", keep)
    return figures


def panel(title: str, *names: str, log_across: bool = False) -> Panel:
    x = np.arange(1.0, 5.0)
    return Panel(title, [Curve(name, x, 3.0 ** -(x - 2)) for name in names], log_across)


def test_panels_share_a_legend_and_the_label_of_the_last_row(kept: list[Any]) -> None:
    rows = [
        [panel("K = 1", "PDMM", "FedAvg"), panel("K = 3", "PDMM")],
        [panel("K = 1", "FedAvg"), panel("K = 3", "SCAFFOLD", log_across=True)],
    ]
    found = grid(rows, ["m = 25", ""], "round", "gap", Path("fig"), floor=1e-3)
    assert found == [Path("fig.png")]
    (figure,) = kept
    axes = figure.axes
    assert [axis.get_title() for axis in axes] == ["K = 1", "K = 3"] * 2
    assert [axis.get_xlabel() for axis in axes] == ["", "", "round", "round"]
    assert [axes[0].get_ylabel(), axes[2].get_ylabel()] == ["m = 25\ngap", "gap"]
    assert axes[3].get_xscale() == "log"
    assert all(axis.get_yscale() == "log" for axis in axes)
    assert all(axis.get_ylim()[0] == pytest.approx(1e-3) for axis in axes)
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["PDMM", "FedAvg", "SCAFFOLD"]


def test_rows_with_labels_of_their_own(kept: list[Any]) -> None:
    rows = [[panel("a", "PDMM")], [panel("b", "PDMM")]]
    grid(rows, ["", ""], ["round", "MB"], ["gap", "loss"], Path("fig"), top=3.0)
    first, second = kept[0].axes
    assert [first.get_xlabel(), second.get_xlabel()] == ["round", "MB"]
    assert [first.get_ylabel(), second.get_ylabel()] == ["gap", "loss"]
    low, high = first.get_ylim()
    assert (low, high) == (pytest.approx(0.93 / 9), 3.0)


def test_no_curve_is_above_what_is_shown(kept: list[Any]) -> None:
    x = np.array([0.0, 4.0, 8.0, 20.0])
    high = Panel("K = 1", [Curve("FedAvg", x, np.array([2.3, 2.1, 1.9, 1.7]))], log_across=True)
    low = Panel("K = 5", [Curve("FedAvg", x, np.array([2.3, 1.6, 1.2, 0.7]))], log_across=True)
    grid([[high, low], [low, low]], ["", ""], "round", "loss", Path("fig"), top=1.5)
    first, second, third, _ = kept[0].axes
    assert first.get_ylim()[1] == second.get_ylim()[1] == pytest.approx(2.3)
    assert third.get_ylim()[1] == pytest.approx(1.5)
    shown = [text.get_text() for text in third.get_xticklabels()]
    assert {"5", "10", "20"} <= set(shown)  # less than a decade: no powers of ten


def test_what_is_not_positive_is_left_out(kept: list[Any]) -> None:
    curve = Curve("PDMM", np.arange(3.0), np.array([1.0, 0.0, -1e-17]))
    grid([[Panel("", [curve])]], [""], "round", "gap", Path("fig"))
    (line,) = kept[0].axes[0].lines
    np.testing.assert_array_equal(line.get_ydata(), [1.0, np.nan, np.nan])


def test_snapshots_of_a_network(kept: list[Any]) -> None:
    positions, edges = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, 1.0]]), np.array([[0, 1], [1, 2]])
    errors = [np.array([1.0, 1e-3, 1e-20]), np.array([1e-3, 1e-9, 5.0])]
    strips = [Strip("PDMM", errors), Strip("gossip", errors)]
    snapshots(strips, ["10", "20"], positions, edges, 1e-8, 1.0, "error", Path("fig"))
    *pictures, colours = kept[0].axes
    assert len(pictures) == 4
    assert [axis.get_title() for axis in pictures] == ["10", "20", "", ""]
    assert [pictures[0].get_ylabel(), pictures[2].get_ylabel()] == ["PDMM", "gossip"]
    assert colours.get_ylabel() == "error"
    lines, nodes = pictures[1].collections
    assert len(lines.get_segments()) == 2
    np.testing.assert_array_equal(nodes.get_array(), [1e-3, 1e-8, 1.0])  # cut at both ends
