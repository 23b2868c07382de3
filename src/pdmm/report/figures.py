"""Figures of convergence: each method has one colour, everywhere the same."""

from collections.abc import Mapping
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from pdmm.result import Result

COLOURS = {
    "gradient descent": "#8c8c8c",
    "FedAvg": "#e69f00",
    "SCAFFOLD": "#009e73",
    "Inexact FedSplit": "#cc79a7",
    "GPDMM": "#56b4e9",
    "AGPDMM": "#0072b2",
    "PDMM": "#d55e00",
    "FedSplit": "#d55e00",
    "asynchronous PDMM": "#cc79a7",
    "ADMM": "#0072b2",
    "gossip": "#777777",
    "FedProx": "#9a5b13",
    "FedDyn": "#8e44ad",
    "auto": "#111111",
}


def look(name: str) -> dict[str, object]:
    """Colour and line of a method; a variant ("AGPDMM, rho = ...") has its colour, dashed.

    So has what is proven of it ("AGPDMM, proven").
    """
    method = name.split(",")[0].split(" = ")[0]
    exact = method in ("PDMM", "FedSplit")
    return {
        "color": COLOURS.get(method, "#333333"),
        "linestyle": _line(name),
        "linewidth": 4.0 if exact else 1.8,  # what others lie upon stays visible below them
        "zorder": 1 if exact else 2,
    }


def _line(name: str) -> object:
    """Matplotlib's line style: solid for a method itself, dashed or dotted for a variant."""
    if "," not in name:
        return "-"
    if "FedSplit" in name and not name.endswith("proven"):
        return (0, (1, 1.2))
    return (0, (4, 2))


def save(figure: Figure, stem: Path) -> list[Path]:
    """Write a figure as PNG and SVG, and close it; the same figure is the same files."""
    plt.rcParams["svg.hashsalt"] = "pdmm"
    stem.parent.mkdir(parents=True, exist_ok=True)
    paths = [stem.with_suffix(suffix) for suffix in (".png", ".svg")]
    figure.savefig(paths[0], dpi=150)
    figure.savefig(paths[1], metadata={"Date": None})
    plt.close(figure)
    return paths


def convergence(results: Mapping[str, Result], title: str, path: Path) -> Path:
    """Gap against rounds and against bytes, in one figure; the path's suffix is its format."""
    plt.rcParams.update({"font.size": 10, "axes.spines.top": False, "axes.spines.right": False})
    figure, axes = plt.subplots(1, 2, figsize=(10.5, 4.6), sharey=True, layout="constrained")
    for name, result in results.items():
        h = result.history
        gap = np.where(h["gap"] > 0, h["gap"], np.nan)
        sent = (h["bytes_up"] + h["bytes_down"]) / 1e6
        for axis, across in zip(axes, (h["round"], sent), strict=True):
            axis.semilogy(across, gap, label=name, **look(name))
    axes[0].set(xlabel="round", ylabel=r"gap  $F(x_s) - F^\star$")
    axes[1].set(xlabel="megabytes sent, up and down, all clients")
    for axis in axes:
        axis.grid(which="major", color="#e5e5e5", linewidth=0.7)
        axis.set_axisbelow(True)
        axis.set_xlim(left=0)
    figure.suptitle(title)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside right center", frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    plt.close(figure)
    return path
