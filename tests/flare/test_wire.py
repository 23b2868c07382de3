"""What travels between server and sites arrives, and what must not travel does not."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from pdmm.flare import wire


@given(
    st.dictionaries(
        st.text(max_size=5).filter(lambda key: not key.startswith("\0")),
        st.recursive(
            st.none()
            | st.booleans()
            | st.integers(-(2**60), 2**60)
            | st.floats(allow_nan=False)
            | st.text(max_size=5)
            | arrays.arrays(
                st.sampled_from([np.float64, np.float32, np.int64, np.bool_]),
                arrays.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4),
            ),
            lambda inner: st.lists(inner, max_size=3),
            max_leaves=5,
        ),
        max_size=4,
    )
)
def test_what_travels_arrives(payload: dict[str, Any]) -> None:
    def same(a: Any, b: Any) -> bool:
        if isinstance(a, np.ndarray):
            return a.dtype == b.dtype and np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
        if isinstance(a, list):
            return len(a) == len(b) and all(map(same, a, b))
        return bool(a == b) and type(a) is type(b)

    packed = wire.encode(payload)
    found = wire.decode(packed)
    assert list(found) == list(payload)
    assert all(same(payload[key], found[key]) for key in payload)
    with pytest.raises(ValueError, match=r"cut short|form|Expecting|Unterminated"):
        wire.decode(packed[:-1] if len(packed) > 8 else b"")


def test_what_is_no_number_does_not_travel() -> None:
    with pytest.raises(TypeError, match="is a function"):
        wire.encode({"f": lambda: None})
    with pytest.raises(TypeError, match="only numbers can be sent"):
        wire.encode({"x": np.array([object()])})
    with pytest.raises(TypeError, match="keys must be text"):
        wire.encode({"x": {3: 1}})
