"""The memories of very many clients: in arrays, in files and in checkpoints."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pdmm
from builders.engine import watch
from builders.lazy_clients import AG, METHODS, StopError, counted, one, schedule
from pdmm.engines.in_process import InProcess
from pdmm.engines.memories import LateMemory


def test_only_those_that_took_part_have_a_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    memories: list[LateMemory] = []
    used: list[int] = []

    def look(clients: InProcess) -> None:
        assert isinstance(clients.here.memories, LateMemory)
        memories.append(clients.here.memories)
        used.append(clients.here.memories.used)

    watch(monkeypatch, after=look)
    chosen = schedule(6, 4, clients=1000)
    pdmm.solve(pdmm.Lazy(1000, one), AG, rounds=6, participation=chosen)
    assert used == [len(set().union(*chosen[: r + 1])) for r in range(6)]
    memory = memories[-1]
    assert set(np.flatnonzero(memory.place >= 0)) == set().union(*chosen)
    assert all(len(array) < 100 for array in memory.arrays)


def test_memories_in_files_give_the_same_bits(tmp_path: Path) -> None:
    folder = tmp_path / "memories"
    method = pdmm.GPDMM(step_size=0.02, local_steps=4, rho=6.0)
    given: dict[str, Any] = {"rounds": 15, "participation": 0.3, "loss": 0.2, "bits": 6}
    plain = pdmm.solve(pdmm.Lazy(100, one), method, **given)
    # Open files that nobody closes would be a warning, and so an error, here.
    filed = pdmm.solve(pdmm.Lazy(100, one, folder=str(folder)), method, **given)
    assert plain.x.tobytes() == filed.x.tobytes()
    assert list(folder.iterdir()) == []


# --- checkpoints ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["PDMM", "AGPDMM", "GPDMM", "Scaffold", "FedAvg"])
def test_a_run_is_taken_up_to_the_same_bits(name: str, tmp_path: Path) -> None:
    method, path = METHODS[name], tmp_path / "run.safetensors"
    given: dict[str, Any] = {"rounds": 15, "participation": 8, "loss": 0.2, "bits": 5}

    def make() -> pdmm.Lazy:
        return pdmm.Lazy(300, one, evaluate=lambda x: float(x @ x) + 1)

    def halt(r: int, x: Any) -> None:
        if r in (5, 11):
            raise StopError

    whole = pdmm.solve(make(), method, **given)
    with pytest.raises(StopError):
        pdmm.solve(make(), method, checkpoint=path, every=2, callback=halt, **given)
    with pytest.raises(StopError):
        pdmm.resume(path, make(), callback=lambda r, x: halt(11 if r > 7 else 0, x))
    assert path.stat().st_size < 80_000  # not all clients' memories
    found = pdmm.resume(path, make())
    assert found.x.tobytes() == whole.x.tobytes()
    for column in set(whole.history) - {"seconds"}:
        np.testing.assert_array_equal(found.history[column], whole.history[column])


def test_only_what_took_part_is_made_again_after_taking_up(tmp_path: Path) -> None:
    path = tmp_path / "run"
    chosen = schedule(6, 3, clients=1000)
    pdmm.solve(
        pdmm.Lazy(1000, one),
        AG,
        rounds=6,
        participation=chosen,
        checkpoint=path,
        callback=lambda r, x: r == 4,
    )
    make, calls = counted()
    found = pdmm.resume(path, pdmm.Lazy(1000, make))
    assert set(calls) == {0}.union(*chosen[4:])
    whole = pdmm.solve(pdmm.Lazy(1000, one), AG, rounds=6, participation=chosen)
    assert found.x.tobytes() == whole.x.tobytes()
    with pytest.raises(ValueError, match="its clients is 999, and it was 1000"):
        pdmm.resume(path, pdmm.Lazy(999, one))


def test_another_lazy_problem_is_not_taken_up(tmp_path: Path) -> None:
    def made(shift: float) -> Any:
        def make(i: int) -> pdmm.LeastSquares:
            A = np.random.default_rng(i).standard_normal((8, 3))
            return pdmm.LeastSquares([A], [np.full(8, shift)])

        return make

    path = tmp_path / "lazy"
    pdmm.solve(
        pdmm.Lazy(100, made(1.0)),
        pdmm.AGPDMM(0.02, 5, rho=2.0),
        rounds=20,
        participation=10,
        checkpoint=path,
        callback=lambda r, x: r == 5,
    )
    with pytest.raises(ValueError, match="not the one of the checkpoint"):
        pdmm.resume(path, pdmm.Lazy(100, made(7.0)))
    assert pdmm.resume(path, pdmm.Lazy(100, made(1.0))).rounds == 20
