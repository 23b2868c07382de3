"""A report as Markdown and as one HTML page that needs nothing else."""

import base64
import html
from dataclasses import dataclass, field
from pathlib import Path

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #222; max-width: 70rem; margin: 2rem auto;
  padding: 0 1rem; }
h1, h2 { line-height: 1.2; } h2 { margin-top: 2.5rem; }
img { max-width: 100%; }
table { border-collapse: collapse; margin: 1rem 0; font-size: 0.92em; }
th, td { padding: 0.25rem 0.7rem; border-bottom: 1px solid #ddd; text-align: right; }
th:first-child, td:first-child { text-align: left; }
table.claims th, table.claims td { text-align: left; }
.holds { color: #00663f; font-weight: 600; } .part { color: #8a5a00; font-weight: 600; }
.fails { color: #b00020; font-weight: 600; }
"""
CLAIMS = ["the paper says", "verdict", "measured"]
VERDICTS = {"holds": "holds", "holds with a condition": "part", "does not hold": "fails"}


@dataclass
class Section:
    """A part of a report: text, tables, claims with their verdicts, figures."""

    title: str
    text: list[str] = field(default_factory=list)
    tables: list[list[list[str]]] = field(default_factory=list)
    claims: list[tuple[str, str, str]] = field(default_factory=list)  # claim, verdict, evidence
    figures: list[Path] = field(default_factory=list)

    def all_tables(self) -> list[list[list[str]]]:
        """The tables, the claims as the last of them."""
        if not self.claims:
            return self.tables
        claims = [CLAIMS, *(list(claim) for claim in self.claims)]
        return [*self.tables, claims]


def markdown(title: str, sections: list[Section]) -> str:
    """The report as Markdown; figures are linked."""
    parts = [f"# {title}"]
    for section in sections:
        parts.append(f"## {section.title}")
        parts.extend(section.text)
        for head, *rows in section.all_tables():
            lines = [head, ["---"] * len(head), *rows]
            parts.append("\n".join(f"| {' | '.join(cells)} |" for cells in lines))
        parts.extend(f"![{section.title}]({figure.name})" for figure in section.figures)
    return "\n\n".join(parts) + "\n"


def page(title: str, sections: list[Section]) -> str:
    """The report as one HTML page, figures inside."""
    body = [f"<h1>{html.escape(title)}</h1>"]
    for section in sections:
        body.append(f"<h2>{html.escape(section.title)}</h2>")
        body.extend(f"<p>{html.escape(text)}</p>" for text in section.text)
        for head, *rows in section.all_tables():
            cells = "".join(f"<th>{html.escape(cell)}</th>" for cell in head)
            lines = [f"<tr>{cells}</tr>"]
            lines += [f"<tr>{''.join(_cell(cell) for cell in row)}</tr>" for row in rows]
            kind = ' class="claims"' if head == CLAIMS else ""
            body.append(f"<table{kind}>{''.join(lines)}</table>")
        for figure in section.figures:
            data = base64.b64encode(figure.read_bytes()).decode()
            alt = html.escape(section.title)
            body.append(f'<p><img alt="{alt}" src="data:image/png;base64,{data}"></p>')
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f"<title>{html.escape(title)}</title><style>{STYLE}</style></head>"
        f"<body>{''.join(body)}</body></html>\n"
    )


def _cell(text: str) -> str:
    kind = f' class="{VERDICTS[text]}"' if text in VERDICTS else ""
    return f"<td{kind}>{html.escape(text)}</td>"
