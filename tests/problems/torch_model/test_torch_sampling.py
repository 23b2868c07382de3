"""Which samples a step is about, whoever asks and when."""

from typing import Any

import numpy as np
import pytest

from pdmm.problems.torch_model.batches import Batches, mask_seed

SAMPLINGS = ("shuffled", "replacement", "stored")


def rows(batches: Batches, client: int, samples: int, cursor: int, count: int) -> list[list[int]]:
    found = batches.rows(client, samples, cursor, count)
    assert found is not None
    return [chosen.tolist() for chosen in found]


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("size", [1, 3, 4, 10])
def test_steps_may_be_asked_for_in_any_portions(sampling: Any, size: int) -> None:
    batches = Batches(size, sampling, seed=6)
    whole = rows(batches, 2, 10, 0, 25)
    assert len(whole) == 25
    parts = [rows(batches, 2, 10, a, b - a) for a, b in ((0, 1), (1, 9), (9, 10), (10, 25))]
    assert [chosen for part in parts for chosen in part] == whole


def test_every_epoch_takes_every_sample_once_in_an_order_of_its_own() -> None:
    found = rows(Batches(4, "shuffled"), 0, 10, 0, 9)
    assert [len(chosen) for chosen in found] == [4, 4, 2] * 3
    epochs = [[*found[k], *found[k + 1], *found[k + 2]] for k in (0, 3, 6)]
    assert all(sorted(epoch) == list(range(10)) for epoch in epochs)
    assert len({tuple(epoch) for epoch in [*epochs, list(range(10))]}) == 4


def test_a_batch_that_is_larger_than_the_data_is_all_of_them() -> None:
    assert [sorted(chosen) for chosen in rows(Batches(40, "shuffled"), 0, 3, 5, 2)] == [
        [0, 1, 2],
        [0, 1, 2],
    ]


def test_samples_are_drawn_with_replacement_and_evenly() -> None:
    found = np.array(rows(Batches(7, "replacement", seed=1), 0, 5, 0, 2000))
    assert found.shape == (2000, 7)
    shares = np.bincount(found.ravel(), minlength=5) / found.size
    assert np.abs(shares - 0.2).max() < 0.015
    assert any(len(set(chosen)) < 5 for chosen in found[:20].tolist())


def test_stored_order_leaves_out_the_last_partial_batch() -> None:
    assert rows(Batches(4, "stored"), 0, 10, 1, 3) == [[4, 5, 6, 7], [0, 1, 2, 3], [4, 5, 6, 7]]


@pytest.mark.parametrize("sampling", ["shuffled", "replacement"])
def test_clients_and_seeds_have_samples_of_their_own(sampling: Any) -> None:
    first = rows(Batches(5, sampling, seed=0), 0, 50, 0, 3)
    assert first != rows(Batches(5, sampling, seed=0), 1, 50, 0, 3)
    assert first != rows(Batches(5, sampling, seed=1), 0, 50, 0, 3)


def test_every_step_of_every_client_has_masks_of_its_own() -> None:
    seeds = {mask_seed(s, i, k) for s in range(3) for i in range(10) for k in range(10)}
    assert len(seeds) == 300
    assert max(seeds) < 2**63


def test_all_samples_need_no_numbers() -> None:
    assert Batches(None, "shuffled").rows(0, 10, 3, 4) is None
