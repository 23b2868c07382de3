"""What travels between server and sites arrives, and what must not travel does not."""

import json
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


# --- bytes that nobody's encode has made ---------------------------------------------------------


def packed(text: str, arrays: bytes = b"") -> bytes:
    return len(text.encode()).to_bytes(8, "little") + text.encode() + arrays


def array(code: object, shape: object, data: bytes = b"") -> bytes:
    return packed(json.dumps({"x": {wire.ARRAY: [code, shape]}}), data)


BAD: dict[str, tuple[Any, str]] = {
    "no bytes": (None, "must be bytes, got a NoneType"),
    "text": ("text", "must be bytes, got a str"),
    "nothing": (b"", "cut short"),
    "a length alone": ((2**64 - 1).to_bytes(8, "little"), "cut short"),
    "long text": (packed('{"a":"' + "x" * 2**22 + '"}'), "bytes of text, and at most 4,194,304"),
    "no JSON": (packed("{"), "Expecting"),
    "no UTF-8": (b"\x01" + bytes(7) + b"\xff", "invalid start byte|utf"),
    "a list": (packed("[1]"), "does not have the form"),
    "too many bytes": (packed("{}", b"x"), "does not have the form"),
    "deep": (packed('{"a":' + "[" * 40 + "]" * 40 + "}"), "more than 30 lists within each other"),
    "very deep": (packed("[" * 10**5), "too many lists within each other"),
    "a huge number": (packed('{"a":' + "9" * 5000 + "}"), "a whole number of 5,000 digits"),
    "a key twice": (packed('{"a":1,"a":2}'), "a key twice"),
    "a zero key": (packed('{"\\u0000other":1}'), "begins with a zero character"),
    "1e12 entries": (array("<f8", [10**12]), "from 0 to 1,000,000,000"),
    "many entries": (array("<f8", [10**9]), "an array of 8000000000 bytes is incomplete"),
    "none times many": (array("<f8", [0, 10**12]), "from 0 to 1,000,000,000"),
    "less than none": (array("<f8", [-1]), "whole numbers from 0"),
    "minus times minus": (array("<f8", [-1, -1], bytes(8)), "whole numbers from 0"),
    "bool": (array("<f8", [True], bytes(8)), "whole numbers from 0"),
    "fraction": (array("<f8", [1.0], bytes(8)), "whole numbers from 0"),
    "NaN": (array("<f8", [float("nan")]), "whole numbers from 0"),
    "no shape": (array("<f8", None), "whole numbers from 0"),
    "many axes": (array("<f8", [1] * 9, bytes(8)), "at most 8 whole numbers"),
    "objects": (array("|O", [1], bytes(8)), "another dtype than those of plain numbers"),
    "fields": (array("f8,f8", [1], bytes(16)), "another dtype"),
    "within": (array("(9,)f8", [0]), "another dtype"),
    "big-endian": (array(">f8", [1], bytes(8)), "another dtype"),
    "text in it": (array("<U1", [1], bytes(4)), "another dtype"),
    "long doubles": (array("<f16", [1], bytes(16)), "another dtype"),
    "no dtype": (array(None, [1], bytes(8)), "another dtype"),
    "a list for a dtype": (array([["a", "f8"]], [1], bytes(8)), "another dtype"),
    "one word": (packed('{"x":{"\\u0000array":["<f8"]}}'), "not told by a dtype and a shape"),
    "more words": (packed('{"x":{"\\u0000array":["<f8",[]],"y":1}}', bytes(8)), "not told by"),
    "no bool": (array("|b1", [2], b"\x01\x02"), "other bytes than 0 and 1"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_no_message_is_is_a_value_error(name: str) -> None:
    data, says = BAD[name]
    with pytest.raises(ValueError, match=says) as refusal:
        wire.decode(data)
    assert len(str(refusal.value)) < 300


def test_arrays_arrive_in_the_order_of_bytes_of_the_wire() -> None:
    sent = {"x": np.arange(3.0).astype(">f8"), "y": np.array([[True], [False]])}
    found = wire.decode(wire.encode(sent))
    assert found["x"].dtype == np.dtype("<f8")
    np.testing.assert_array_equal(found["x"], [0.0, 1.0, 2.0])
    np.testing.assert_array_equal(found["y"], [[True], [False]])
    assert wire.decode(wire.encode({"x": np.zeros((0, 5))}))["x"].shape == (0, 5)


def test_too_much_text_is_refused_where_it_is_sent() -> None:
    with pytest.raises(ValueError, match="long lists of numbers should be arrays"):
        wire.encode({"x": [1.0] * 10**6})
