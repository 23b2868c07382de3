"""The file that a site's policy is kept in: every key with its default, and what it is for."""

from typing import Any

from pdmm.privacy.policy import Policy

HEAD = """\
# What this site allows. pdmm enforces it here, whatever the server or a researcher asks for.
# Every key stands here with its default; a key that is left out has its default too.
# docs/security.md gives the reason for each limit, and what it cannot prevent.
# To see what this file allows: pdmm federate site --kit KIT --policy THIS_FILE --dry-run
"""

SECTIONS: dict[str, tuple[str, ...]] = {
    "Which tables": (
        *("min_rows", "max_parameters_per_row", "min_rows_per_level", "min_rows_per_cell"),
        *("problems", "families", "columns", "describes", "rare_levels", "evaluation_share"),
        *("stated_rows", "stated_columns"),
    ),
    "Which points a study may ask about": (
        *("x0", "regularisers", "max_eta", "min_effective_rows", "max_loss_ratio"),
        *("min_curvature", "max_row_share"),
    ),
    "How much may leave": (
        *("secure_sums", "hessians", "per_site_results", "max_rounds", "max_numbers_out_share"),
        *("max_local_steps", "seconds_per_answer", "runs_per_day", "max_refusals_per_day"),
        *("methods", "max_weight_ratio", "max_weight_share"),
    ),
    "Who takes part": (
        *("studies", "min_organisations", "partners", "require_verified", "max_set_changes"),
    ),
}

COMMENTS = {
    "min_rows": "Each client of the site, and each mini-batch, has at least so many rows.",
    "max_parameters_per_row": (
        "A model has at most so many parameters for each row. A model with as many parameters as\n"
        "rows tells the rows."
    ),
    "min_rows_per_level": (
        "Each value of a discrete column (one with at most 10 values) stands in at least so many\n"
        "rows. Merge rare categories, or leave the column out."
    ),
    "min_rows_per_cell": (
        "Each combination of the values of all discrete columns that occurs has at least so many\n"
        "rows. Whoever is alone with a combination can be asked about."
    ),
    "problems": "Classes of problems. A problem of own functions does not know its rows.",
    "families": (
        'Families of generalised linear models: a list such as ["binomial"], or "all". Gradients\n'
        'of "huber" tell single rows at every point, so that no limit below holds them back.'
    ),
    "columns": 'Columns that a study may use: a list of names, or "all".',
    "describes": (
        'What the site says of its table before any fit: a list of "columns" (names and types),\n'
        '"levels" (of categories), "rows" and "missing" (how many), or "all". Rows and missing\n'
        "entries are told as sums over sites, unless per_site_results is true."
    ),
    "rare_levels": (
        "What becomes of a category's levels that stand in fewer than min_rows_per_level rows:\n"
        '"refuse" the study, or "merge" them into one level, "(other)".'
    ),
    "evaluation_share": (
        "The share of rows that the site sets aside, from 0 to 1: no fit sees them, and models\n"
        "are evaluated on them alone. With 0, models are not evaluated here."
    ),
    "studies": 'Names of the studies that may ask, a list, or "all".',
    "stated_rows": (
        "Rows and columns of the table behind a problem that does not know them, if you allow\n"
        "such a problem. The limits above then rest on these numbers."
    ),
    "stated_columns": "",
    "x0": 'Where a run begins: "zero" (or at the start that your own model has), or "any".',
    "regularisers": "Regularisers. A Box of one point would put x there.",
    "max_eta": (
        "The largest linear predictor, of any row, at a point at which the site answers. Far out,\n"
        "an answer is about single rows."
    ),
    "min_effective_rows": "An answer is about at least so many rows, weighted by their curvature.",
    "max_loss_ratio": (
        "The largest mean loss of a client's rows at a point, over that at x = 0. A fit comes\n"
        "closer to the rows; a point that is far from all of them is chosen to tell some apart."
    ),
    "min_curvature": (
        "What the rows' curvatures add up to, at least. A row of a logistic model has p(1 - p),\n"
        "at most 1/4, and next to nothing where its outcome is certain: what is left is about\n"
        "few rows."
    ),
    "max_row_share": (
        "The largest share of one row, from 0 to 1, in a combination of what a formula makes of\n"
        "the table: its leverage. With a share of 1, an answer can be about that row alone."
    ),
    "max_rounds": "Rounds of one run.",
    "max_numbers_out_share": (
        "Numbers that may leave, over rows times columns, in all runs on this table together.\n"
        "The audit keeps count. A question that was asked before counts once."
    ),
    "secure_sums": (
        'Whether the site\'s parts of sums must be hidden in the sum over all sites: "auto" is in\n'
        'each run of three or more organisations that have certificates, "always" in all runs;\n'
        '"optional" is as the run says.'
    ),
    "hessians": (
        'Whether Hessians, d(d+1)/2 numbers, may leave: "never", "secure" (inside secure sums\n'
        'alone) or "allowed".'
    ),
    "per_site_results": "Whether a result may say anything of this site alone.",
    "max_local_steps": "Gradient steps in one round.",
    "seconds_per_answer": "An answer that took longer is withheld, and its run ends.",
    "runs_per_day": "Runs that may begin.",
    "max_refusals_per_day": (
        "After so many refusals the site answers nothing until the next day: a refusal is an\n"
        "answer too."
    ),
    "methods": 'Methods, by the names of their classes: a list such as ["AGPDMM"], or "all".',
    "max_weight_share": (
        "The weight of the site's clients, over that of all clients of a run. A model that is\n"
        "nearly all of one site's is that site's."
    ),
    "max_weight_ratio": "The largest weight over the smallest, of the site's own clients.",
    "min_organisations": (
        "Organisations that take part in a run, this one among them, by their certificates."
    ),
    "partners": (
        'SHA-256 fingerprints of the certificates of the sites that may take part, or "all" that\n'
        "the federation's root certificate vouches for. Whoever holds the root key can make sites."
    ),
    "require_verified": (
        "Whether this site only takes part in runs whose sites compute every point themselves\n"
        '(verify="sites"). Then no server can choose a point.'
    ),
    "max_set_changes": (
        "How often such a run may go on with other sites than in the round before."
    ),
}


def policy_text(policy: Policy | None = None) -> str:
    """A policy as the text of its file, with a comment for each key."""
    policy = policy or Policy()
    lines = [HEAD]
    for title, names in SECTIONS.items():
        lines.append(f"# --- {title} ---\n")
        for name in names:
            comment = COMMENTS[name]
            lines.extend(f"# {line}" for line in comment.splitlines())
            lines.append(f"{name} = {_toml(getattr(policy, name))}\n")
    return "\n".join(lines)


def _toml(value: Any) -> str:
    if value is None:
        return '"all"'
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, tuple):
        return "[" + ", ".join(f'"{word}"' for word in value) + "]"
    if isinstance(value, float) and value.is_integer() and value < 1e15:
        return str(int(value))
    return str(value)
