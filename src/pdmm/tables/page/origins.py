"""How to make the page again, and how to cite it."""

from typing import TYPE_CHECKING

from pdmm.tables.page.between_sites import between_sites
from pdmm.tables.page.calls import KIT, command, python_call
from pdmm.tables.page.elements import Html, joined, paragraph, section, tag, terms

if TYPE_CHECKING:
    from pdmm.tables.fitted import Fit

PAPER = (
    "G. Zhang, K. Niwa and W. B. Kleijn. ",
    "Revisiting the Primal-Dual Method of Multipliers for Optimisation over Centralised Networks.",
)


def origins(fit: "Fit") -> Html:
    """The section."""
    how = fit.stored.how
    versions = terms(
        [
            ("Made", f"{how['made'].replace('T', ' ').replace('+00:00', ' UTC')}"),
            ("pdmm", how["pdmm"]),
            ("NumPy", how["numpy"]),
            ("Python", how["python"]),
        ],
        kind="facts figures",
    )
    return section(
        "origins",
        "To reproduce and to cite",
        tag("h3", "Reproduce"),
        paragraph(_where(fit)),
        tag("pre", tag("code", python_call(fit))),
        _on_a_command_line(fit),
        versions,
        tag("h3", "Cite"),
        paragraph(PAPER[0], tag("cite", PAPER[1])),
        paragraph(
            "The pdmm developers. ",
            tag(
                "cite",
                "pdmm: federated and distributed optimisation with the primal-dual method "
                "of multipliers.",
            ),
            f" Version {how['pdmm']}.",
        ),
    )


def _where(fit: "Fit") -> Html:
    if between_sites(fit.stored) is None:
        return joined(["In Python, where ", tag("code", "data"), " are the tables of the sites:"])
    return joined(
        [
            "In Python, where ",
            tag("code", KIT),
            " is the folder of a researcher’s kit, and the same sites are connected:",
        ]
    )


def _on_a_command_line(fit: "Fit") -> Html | None:
    words = command(fit)
    if words is None:
        return None
    return joined([paragraph("On a command line:"), tag("pre", tag("code", words))])
