"""Tables on the terminal."""

import io
from typing import Any

import numpy as np
from rich.console import Console

import pdmm
from pdmm.report.text_tables import comparison


def run(method: pdmm.Method, rounds: int) -> pdmm.Result:
    return pdmm.solve(pdmm.Quadratic(1.0, np.arange(6.0).reshape(3, 2)), method, rounds)


def shown(table: Any) -> list[str]:
    out = io.StringIO()
    Console(file=out, width=120).print(table)
    return out.getvalue().splitlines()


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("│").split("│")]


def test_a_row_for_each_method_with_what_it_took() -> None:
    exact, slow = run(pdmm.PDMM(1.0), 30), run(pdmm.GradientDescent(1e-3), 4)
    lines = shown(comparison({"PDMM": exact, "slow": slow}, gap=1e-6, title="To a gap of 1e-6"))
    assert lines[0].strip() == "To a gap of 1e-6"
    assert "MB of all clients, up and down" in " ".join(lines[-3:])
    rows = {cells(line)[0]: cells(line)[1:] for line in lines if line.startswith("│")}
    h = exact.history
    reached = h.rounds_to(1e-6)
    sent = (h["bytes_up"] + h["bytes_down"])[reached] / 1e6
    published = (h["paper_bytes_up"] + h["paper_bytes_down"])[reached] / 1e6
    final = f"{h['gap'][-1]:.1e}"
    assert rows["PDMM"] == [str(reached), f"{sent:.1f}", f"({published:.1f})", final]
    assert rows["slow"][:3] == ["—", "—", "—"]  # it never came so far
    assert float(rows["slow"][3]) > 1e-6
