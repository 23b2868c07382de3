"""Pages that name a file of the project name one that is there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
NAMED = re.compile(r"\b((?:tests|src|benchmarks)/[\w/]*\w\.py)(?:::(\w+))?")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_file_and_test_that_a_page_names_exists(page: Path) -> None:
    for path, test in NAMED.findall(page.read_text()):
        assert (ROOT / path).is_file(), f"{page.name} names {path}"
        if test:
            assert f"def {test}(" in (ROOT / path).read_text(), f"{page.name} names {test}"
