"""A site's record, by which it counts what has left."""

import json
import os
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from pdmm.privacy.audit import FILE, Audit, Entry, entries_of


def entry(**what: object) -> Entry:
    given = {"run": "r", "by": "ana", "verb": "round", **what}
    return Entry.now(**given)


def test_what_left_is_counted_over_all_runs_of_a_site(tmp_path: Path) -> None:
    first = Audit(tmp_path, "patients")
    first.add(entry(verb="open"))
    first.add(entry(numbers=30, digest="a"))
    first.add(entry(numbers=12, digest="b"))
    first.add(entry(outcome="refused", counts=True, numbers=99, digest="c"))
    again = Audit(tmp_path, "patients")
    assert (again.numbers, again.asked) == (42, {"a", "b"})
    assert (again.begun_today(), again.refused_today()) == (1, 1)


def test_each_table_has_a_count_of_its_own_but_refusals_are_the_sites(tmp_path: Path) -> None:
    audit = Audit(tmp_path, "patients")
    audit.add(entry(numbers=30))
    audit.add(entry(outcome="refused", counts=True))
    other = Audit(tmp_path, "visits")
    assert (other.numbers, other.refused_today()) == (0, 1)


def test_a_count_begins_anew_where_the_site_says_so(tmp_path: Path) -> None:
    audit = Audit(tmp_path, "patients")
    audit.add(entry(numbers=30, digest="a"))
    audit.add(entry(verb="reset"))
    audit.add(entry(numbers=5))
    assert Audit(tmp_path, "patients").numbers == 5
    assert not Audit(tmp_path, "patients").asked


def test_a_day_is_24_hours(tmp_path: Path) -> None:
    audit = Audit(tmp_path)
    for hours in (25, 23):
        then = (datetime.now(UTC) - timedelta(hours=hours)).isoformat()
        audit.add(Entry(time=then, run="", by="", verb="round", outcome="refused", counts=True))
    assert Audit(tmp_path).refused_today() == 1


def test_an_entry_is_in_the_file_when_it_is_added_and_only_its_owner_reads_it(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "kept"
    audit = Audit(folder)
    audit.add(entry(numbers=7))
    (line,) = (folder / FILE).read_text().splitlines()
    assert json.loads(line)["numbers"] == 7
    assert stat.S_IMODE((folder / FILE).stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_half_a_line_of_a_power_cut_is_as_good_as_none(tmp_path: Path) -> None:
    audit = Audit(tmp_path)
    audit.add(entry(numbers=7))
    with open(tmp_path / FILE, "a") as file:
        file.write('{"time": "2026-')
    assert Audit(tmp_path).numbers == 7
    Audit(tmp_path).add(entry(numbers=5))
    assert [e.numbers for e in entries_of(tmp_path / FILE)] == [7, 5]


def test_a_file_that_was_changed_is_refused_with_its_line(tmp_path: Path) -> None:
    Audit(tmp_path).add(entry(numbers=7))
    with open(tmp_path / FILE, "a") as file:
        file.write("nothing to see\n")
    with pytest.raises(ValueError, match=r"line 2: this is no entry of an audit"):
        Audit(tmp_path)


def test_no_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("")
    os.symlink(tmp_path / "elsewhere", tmp_path / FILE)
    with pytest.raises(OSError, match=r"symbolic link|Too many levels"):
        Audit(tmp_path).add(entry())
    assert (tmp_path / "elsewhere").read_text() == ""


def test_a_refusal_that_counts_nothing_does_not_fill_the_disk(tmp_path: Path) -> None:
    audit = Audit(tmp_path)
    for _ in range(50):
        audit.add(entry(outcome="refused", reason="the day is over"))
        audit.add(entry(outcome="refused", reason="too far", counts=True))
    kept = [e.reason for e in entries_of(tmp_path / FILE)]
    assert kept.count("the day is over") == 1
    assert kept.count("too far") == 50


def test_two_processes_of_a_site_share_one_count(tmp_path: Path) -> None:
    one, other = Audit(tmp_path, "patients"), Audit(tmp_path, "patients")
    one.add(entry(numbers=30, digest="a"))
    other.add(entry(numbers=12, digest="b", outcome="answered"))
    other.add(entry(outcome="refused", counts=True))
    with one.turn():
        assert (one.numbers, one.asked, one.refused_today()) == (42, {"a", "b"}, 1)
    with other.turn():
        assert other.numbers == 42
