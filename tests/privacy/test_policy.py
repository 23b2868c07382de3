"""The policy of a site, and the file that it is kept in."""

from dataclasses import fields
from pathlib import Path

import pytest

import pdmm
from pdmm.privacy.policy import Policy
from pdmm.privacy.policy_file import COMMENTS, SECTIONS, policy_text


def test_the_file_that_is_written_is_the_default_policy(tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    path.write_text(policy_text(), encoding="utf-8")
    assert Policy.read(path) == Policy()


def test_every_key_stands_in_the_file_with_what_it_is_for() -> None:
    names = {field.name for field in fields(Policy)}
    assert sorted(name for section in SECTIONS.values() for name in section) == sorted(names)
    assert set(COMMENTS) == names


def test_a_policy_of_ones_own_comes_back_from_its_file(tmp_path: Path) -> None:
    own = Policy(min_rows=7, methods=("AGPDMM", "PDMM"), max_eta=30.5, x0="any", partners=("ab",))
    path = tmp_path / "policy.toml"
    path.write_text(policy_text(own), encoding="utf-8")
    assert Policy.read(path) == own


def test_a_key_that_is_left_out_has_its_default(tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    path.write_text("min_rows = 200\n", encoding="utf-8")
    assert Policy.read(path) == Policy(min_rows=200)


def test_all_means_everything(tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    path.write_text('problems = "all"\n', encoding="utf-8")
    assert Policy.read(path).problems is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("min_row = 3", "unknown key min_row"),
        ("min_rows = -1", "min_rows must be at least 0"),
        ("min_rows = 1.5", "min_rows must be a whole number"),
        ("max_eta = 'far'", "max_eta must be a number"),
        ("max_eta = nan", "max_eta must be a number"),
        ("max_numbers_out_share = true", "max_numbers_out_share must be a number"),
        ("methods = 'AGPDMM'", "methods must be a list of names"),
        ("methods = 3", "methods must be a list of names"),
        ("per_site_results = 1", "per_site_results must be true or false"),
        ('hessians = "sometimes"', "hessians must be 'never' or 'secure' or 'allowed'"),
        ("min_rows = ", "cannot be read as TOML"),
    ],
)
def test_what_is_no_policy_is_refused_by_file_and_key(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "policy.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=said) as caught:
        Policy.read(path)
    assert "policy.toml" in str(caught.value)


def test_a_file_that_is_not_there_is_no_default_policy(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="cannot be read"):
        Policy.read(tmp_path / "absent.toml")


def test_a_site_takes_a_policy_in_any_form(tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    path.write_text("min_rows = 9\n", encoding="utf-8")
    for given in (path, str(path), {"min_rows": 9}, Policy(min_rows=9)):
        assert pdmm.engines.Site(lambda: None, given).policy == Policy(min_rows=9)
    assert pdmm.engines.Site(lambda: None).policy == Policy()
