"""What the server keeps of each client, so that a site may forget everything."""

import numpy as np

import pdmm
from pdmm.engines.sites.copies import Copies
from pdmm.methods.family import Message, Upload
from pdmm.methods.gpdmm import Draft

METHOD = pdmm.GPDMM(step_size=0.5, local_steps=3)
PLACES = {"ana": slice(0, 2), "ben": slice(2, 3)}
X0 = np.array([1.0, 2.0])


def copies() -> Copies:
    return Copies(METHOD, X0, PLACES)


def test_every_client_starts_from_x0() -> None:
    kept = copies()
    sent = kept.to_send("ana")
    assert sent is not None
    for field in sent:  # z and x
        np.testing.assert_array_equal(field, [[1.0, 2.0], [1.0, 2.0]])


def test_a_site_that_has_its_memory_is_not_sent_it() -> None:
    kept = copies()
    kept.held["ana"] = True
    assert kept.to_send("ana") is None
    assert kept.to_send("ben") is not None


def test_an_upload_that_counts_moves_the_memories_of_its_site_alone() -> None:
    """z_i' = z_i + dz_i, and x_i' is the draft's."""
    kept = copies()
    upload = Upload(np.array([[10.0, 0.0], [0.0, 20.0]]))
    draft = Draft(np.array([[5.0, 6.0], [7.0, 8.0]]))
    kept.take("ana", METHOD, Message(X0), draft, upload)
    memory = kept.memories.read(slice(0, 3))
    np.testing.assert_array_equal(memory.z, [[11.0, 2.0], [1.0, 22.0], [1.0, 2.0]])
    np.testing.assert_array_equal(memory.x, [[5.0, 6.0], [7.0, 8.0], [1.0, 2.0]])


def test_no_two_memories_have_one_name() -> None:
    first, second = copies(), copies()  # the second stands for a server that was started again
    names = [kept.new_name() for kept in (first, second) for _ in range(50)]
    names += [*first.names.values(), *second.names.values()]
    assert len(set(names)) == len(names)


def test_after_a_restart_no_site_is_thought_to_have_its_memory() -> None:
    kept = copies()
    kept.take("ben", METHOD, Message(X0), Draft(np.zeros((1, 2))), Upload(np.ones((1, 2))))
    again = copies()
    again.held = dict.fromkeys(PLACES, True)
    again.load(kept.tables())
    assert again.held == {"ana": False, "ben": False}
    sent = again.to_send("ben")
    assert sent is not None
    np.testing.assert_array_equal(sent[0], [[2.0, 3.0]])
