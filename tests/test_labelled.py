"""Labels have one spelling, values that cannot be trained on are found, and classes can be picked."""

import decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reading import labels_of
from scipy.sparse import csr_array

from workflows.data.labelled import (
    LabelledRows,
    first_unusable,
    label_order,
    listed,
    plain_label,
    usable,
    why_unusable,
)


@pytest.mark.parametrize(
    ("value", "label"),
    [
        *((one, 1) for one in (1, 1.0, "1", "+1", "1.0", " 1 ", "1e0", b"1", np.int8(1), np.float32(1))),
        (decimal.Decimal("1.0"), 1),
        *((minus, -1) for minus in (-1, "-1", "-1.0", np.float64(-1))),
        *((zero, 0) for zero in (0, "0", -0.0, "-0")),
        *((half, 0.5) for half in (0.5, "0.5", ".5", "5e-1", np.float32(0.5))),
        *((yes, True) for yes in (True, np.True_)),
        (np.False_, False),
        *((word, word) for word in ("yes", "", "a b", "1 2", "0x10", "é", "nan", "inf", "-inf")),
        (b"yes", "yes"),
        (b"\xff", "\ufffd"),
        (2**52 + 1, 2**52 + 1),
        (1e300, 1e300),
        ("9" * 400, "9" * 400),
    ],
)
def test_a_label_has_one_spelling(value, label):
    plain = plain_label(value)
    assert plain == label
    assert type(plain) is type(label)


labels = st.one_of(st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text(max_size=8))


@given(label=labels)
def test_a_plain_label_stays_as_it_is(label):
    plain = plain_label(label)
    assert plain_label(plain) == plain
    assert type(plain_label(plain)) is type(plain)
    assert type(plain) in (bool, int, float, str)


@given(number=st.one_of(st.integers(-(2**53) + 1, 2**53 - 1), st.floats(-1e15, 1e15)))
def test_a_number_and_its_text_are_the_same_label(number):
    assert plain_label(number) == number
    assert (
        plain_label(str(number))
        == plain_label(number)
        == plain_label(f"  {number}")
        == plain_label(str(number).encode())
    )


@pytest.mark.parametrize(("one", "other"), [(2**53, 2**53 + 1), (str(2**60), str(2**60 + 1)), ("1_0", "10")])
def test_labels_that_differ_stay_different(one, other):
    assert plain_label(one) != plain_label(other)


@given(unordered=st.lists(labels.map(plain_label), max_size=8))
def test_labels_ascend_numbers_before_words(unordered):
    ordered = sorted(unordered, key=label_order)
    words = [label for label in ordered if isinstance(label, str)]
    numbers = [label for label in ordered if not isinstance(label, str)]
    assert ordered == numbers + words
    assert numbers == sorted(numbers)
    assert words == sorted(words)


def test_the_usual_positive_class_comes_last():
    for negative, positive in ((-1, 1), (0, 1), (1, 2), (False, True), ("no", "yes"), (3, "other")):
        assert sorted([positive, negative], key=label_order) == [negative, positive]


@pytest.mark.parametrize("form", [np.asarray, csr_array])
def test_only_the_rows_of_wanted_classes_are_kept(form):
    matrix = np.arange(1, 11, dtype=np.float32).reshape(5, 2)
    rows = LabelledRows(form(matrix), np.array([0, 2, 1, 0, 2]), ("a", 1, 2.5))
    kept = rows.only((2.5, "a"))
    dense = kept.matrix if form is np.asarray else kept.matrix.toarray()
    assert np.array_equal(dense, matrix[[0, 1, 3, 4]])
    assert labels_of(kept) == ["a", 2.5, "a", 2.5]
    assert kept.classes == rows.classes
    assert len(kept) == 4
    assert len(rows) == 5


def test_rows_that_are_all_wanted_are_not_copied():
    rows = LabelledRows(np.ones((2, 1)), np.array([0, 1]), ("a", "b"))
    assert rows.only(("b", "a", "c")) is rows


def test_of_other_classes_nothing_is_kept():
    rows = LabelledRows(np.ones((2, 1)), np.array([0, 1]), ("a", 1))
    assert len(rows.only(("b", 2))) == 0
    assert rows.only(("b",)).matrix.shape == (0, 1)


@pytest.mark.parametrize(
    ("value", "narrow", "wide"),
    [
        (0, True, True),
        (1e15, True, True),
        (-1e15, True, True),
        (1.1e15, False, True),
        (-1e30, False, True),
        (np.nan, False, False),
        (np.inf, False, False),
        (-np.inf, False, False),
    ],
)
def test_unusable_values_are_found_where_they_are(value, narrow, wide):
    for dtype, fine in ((np.float32, narrow), (np.float64, wide)):
        for place in range(6):
            matrix = np.arange(6, dtype=dtype).reshape(2, 3)
            matrix.ravel()[place] = value
            assert usable(matrix) == fine
            assert usable(matrix.ravel()) == fine
            if not fine:
                assert first_unusable(matrix) == place


def test_the_first_of_several_unusable_values_is_named():
    assert first_unusable(np.array([[1, 2], [np.inf, np.nan]], np.float32)) == 2
    assert first_unusable(np.array([[1, 2], [np.nan, np.inf]], np.float64)) == 2


def test_no_values_are_usable():
    assert usable(np.empty((0, 3), np.float32))
    assert usable(np.empty((0, 3), np.float64))


def test_an_unusable_value_comes_with_advice():
    assert "--scale" in why_unusable(1e16)
    assert "fill or remove" in why_unusable(float("nan"))
    assert "-inf" in why_unusable(float("-inf"))


def test_a_list_of_labels_is_cut_short():
    assert listed(["a", 1, 0.5]) == "'a', 1, 0.5"
    assert listed(range(12)) == "0, 1, 2, 3, 4, 5, 6, 7, 8, 9, …"
    assert listed(range(10)) == "0, 1, 2, 3, 4, 5, 6, 7, 8, 9"
    assert listed(range(3), most=2) == "0, 1, …"
