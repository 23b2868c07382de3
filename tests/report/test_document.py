"""Reports as Markdown and as one HTML page."""

import base64
from pathlib import Path

from pdmm.report.document import Section, markdown, page

ROWS = [["method", "rounds"], ["PDMM", "12"], ["FedAvg", "—"]]
CLAIMS = [
    ("PDMM is FedSplit", "holds", "to 1e-11"),
    ("K matters", "holds with a condition", "K > 1"),
    ("a < b", "does not hold", "a = 2 & b = 1"),
]


def sections(folder: Path) -> list[Section]:
    picture = folder / "fig.png"
    picture.write_bytes(b"\x89PNG of a figure")
    first = Section("Fig. 1", ["Some <text>.", "More."], [ROWS], CLAIMS, [picture])
    return [first, Section("Nothing")]


def test_markdown(tmp_path: Path) -> None:
    blocks = markdown("The report", sections(tmp_path)).split("\n\n")
    assert blocks[:4] == ["# The report", "## Fig. 1", "Some <text>.", "More."]
    assert blocks[4].splitlines() == [
        "| method | rounds |",
        "| --- | --- |",
        "| PDMM | 12 |",
        "| FedAvg | — |",
    ]
    claims = blocks[5].splitlines()
    assert claims[0] == "| the paper says | verdict | measured |"
    assert claims[2] == "| PDMM is FedSplit | holds | to 1e-11 |"
    assert len(claims) == 2 + len(CLAIMS)
    assert blocks[6:] == ["![Fig. 1](fig.png)", "## Nothing\n"]


def test_a_page_needs_nothing_else(tmp_path: Path) -> None:
    text = page("The <report>", sections(tmp_path))
    assert text.startswith("<!doctype html>")
    assert "<title>The &lt;report&gt;</title>" in text
    assert "<p>Some &lt;text&gt;.</p>" in text
    assert "<tr><td>PDMM</td><td>12</td></tr>" in text
    inside = base64.b64encode(b"\x89PNG of a figure").decode()
    assert f'<img alt="Fig. 1" src="data:image/png;base64,{inside}">' in text
    assert "http" not in text
    assert str(tmp_path) not in text


def test_verdicts_have_colours_and_claims_a_table_of_their_own(tmp_path: Path) -> None:
    text = page("The report", sections(tmp_path))
    assert text.count('<table class="claims">') == 1
    assert text.count("<table") == 2
    for kind, verdict in (
        ("holds", "holds"),
        ("part", "holds with a condition"),
        ("fails", "does not hold"),
    ):
        assert f'<td class="{kind}">{verdict}</td>' in text
    assert "<td>a = 2 &amp; b = 1</td>" in text


def test_a_section_without_claims_has_no_table_of_them() -> None:
    assert Section("Nothing").all_tables() == []
    assert Section("Rows", tables=[ROWS]).all_tables() == [ROWS]
