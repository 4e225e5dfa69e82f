"""Splits and partitions: exact sizes, fair shares of both classes, nothing lost, nothing doubled, drawn uniformly."""

from itertools import accumulate, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare, hypergeom

from workflows.data.splitting import Bin, Share, bins, deal, split_sizes, stratified
from workflows.errors import DataError

class_counts = st.tuples(st.integers(1, 3000), st.integers(1, 3000))


@st.composite
def cut_counts(draw):
    """Rows of both classes, and sizes that add up to them."""
    counts = draw(class_counts)
    total = sum(counts)
    cuts = sorted(draw(st.sets(st.integers(1, total - 1), max_size=min(total - 1, 6))))
    return counts, [after - before for before, after in pairwise([0, *cuts, total])]


@given(cut_counts())
def test_pieces_have_exact_sizes_and_within_one_row_their_fair_share(cut):
    counts, sizes = cut
    pieces = stratified(counts, sizes)
    assert [sum(piece) for piece in pieces] == sizes
    assert tuple(np.sum(pieces, axis=0)) == counts
    for piece, size in zip(pieces, sizes, strict=True):
        for code in (0, 1):
            assert piece[code] >= 0
            assert abs(piece[code] - size * counts[code] / sum(counts)) <= 1


@given(cut_counts(), st.integers(1, 400))
def test_partitions_add_up_to_their_splits(cut, rows_per_partition):
    counts, sizes = cut
    wanted = {f"split-{number}": size for number, size in enumerate(sizes)}
    try:
        made = bins(counts, wanted, rows_per_partition)
    except DataError:
        assert min(sizes) * min(counts) / sum(counts) <= 1, "every split has its fair share of more than one row"
        return
    assert tuple(np.sum([piece.counts for piece in made], axis=0)) == counts
    for split, size in wanted.items():
        own = [piece for piece in made if piece.split == split]
        rows = [piece.rows for piece in own]
        assert sum(rows) == size
        assert max(rows) <= rows_per_partition
        assert max(rows) - min(rows) <= 1
        assert len(own) == -(-size // rows_per_partition)
        assert min(np.sum([piece.counts for piece in own], axis=0)) >= 1
        share = np.sum([piece.counts for piece in own], axis=0) / size
        for piece in own:
            assert np.all(np.abs(np.array(piece.counts) - piece.rows * share) <= 1)


@st.composite
def blocks_and_bins(draw):
    """Rows per block and class, and bins that hold exactly all of them."""
    blocks = draw(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), min_size=1, max_size=8))
    totals = np.sum(blocks, axis=0)
    pieces = draw(st.integers(1, 5))
    cuts = [
        [0, *sorted(draw(st.lists(st.integers(0, int(total)), min_size=pieces - 1, max_size=pieces - 1))), int(total)]
        for total in totals
    ]
    per_class = [[after - before for before, after in pairwise(cut)] for cut in cuts]
    return blocks, [Bin("any", counts) for counts in zip(*per_class, strict=True)]


@given(blocks_and_bins(), st.integers(0, 2**32))
def test_dealing_loses_and_doubles_nothing(dealt, seed):
    blocks, places = dealt
    taken = list(deal(blocks, places, np.random.default_rng(seed)))
    assert len(taken) == len(blocks)
    for block, part in zip(blocks, taken, strict=True):
        assert part.min() >= 0
        assert tuple(part.sum(axis=0)) == block
    assert np.array_equal(np.sum(taken, axis=0), [place.counts for place in places])


def test_dealing_follows_the_hypergeometric_law():
    """Of 60 rows of a class in three blocks, how many of each block come to a bin of 24: as if drawn from an urn."""
    blocks, places = [(20, 5), (10, 3), (30, 2)], [Bin("a", (24, 6)), Bin("b", (6, 1)), Bin("c", (30, 3))]
    generator = np.random.default_rng(1)
    draws = np.array([list(deal(blocks, places, generator)) for _ in range(3000)])
    for block in range(3):
        for place in range(3):
            law = hypergeom(60, places[place].counts[0], blocks[block][0])
            observed = np.bincount(draws[:, block, place, 0], minlength=61)[:61]
            expected = law.pmf(np.arange(61)) * len(draws)
            common = expected >= 8
            rest = observed[~common].sum(), expected[~common].sum()
            merged = np.append(observed[common], rest[0]), np.append(expected[common], rest[1])
            keep = merged[1] > 1e-9
            assert observed[expected == 0].sum() == 0
            assert chisquare(merged[0][keep], merged[1][keep], sum_check=False).pvalue > 1e-4, (block, place)


def test_dealing_follows_its_generator():
    blocks, places = [(50, 50)] * 4, [Bin("a", (120, 80)), Bin("b", (80, 120))]
    first, again, other = (
        np.array(list(deal(blocks, places, np.random.default_rng(seed)))).tolist() for seed in (1, 1, 2)
    )
    assert first == again
    assert first != other


@given(st.integers(10, 10**6), st.floats(0.01, 0.45), st.floats(0.01, 0.45))
def test_shares_are_rounded_and_the_rest_takes_what_is_left(total, first, second):
    try:
        sizes = split_sizes(total, [Share("a", first), Share("b", second)], "rest")
    except DataError:
        assert min(round(first * total), round(second * total)) < 1
        return
    assert sizes["a"] == round(first * total)
    assert sizes["b"] == round(second * total)
    assert sum(sizes.values()) == total
    assert min(sizes.values()) >= 1


def test_a_size_from_one_on_is_a_number_of_rows():
    assert split_sizes(100, [Share("a", 30), Share("b", 1)], "rest") == {"rest": 69, "a": 30, "b": 1}
    assert split_sizes(100, [], "rest") == {"rest": 100}


@pytest.mark.parametrize("shares", [[100], [120], [60, 40], [0.999], [0.6, 0.4], [0.001]])
def test_sizes_that_leave_nothing_are_refused_by_name(shares):
    wanted = [Share(f"part{number}", size) for number, size in enumerate(shares)]
    with pytest.raises(DataError, match=r"100 rows cannot be split .*part0.*train") as refused:
        split_sizes(100, wanted, "train")
    assert "\n" not in str(refused.value)


def test_too_few_rows_of_a_class_are_refused_with_the_number():
    with pytest.raises(DataError, match="only 2 rows, too few for a share in each of train, validation, test"):
        bins((1000, 2), {"train": 640, "validation": 160, "test": 202}, 100)
    with pytest.raises(DataError, match="only 1 rows"):
        bins((1, 1000), {"train": 800, "test": 201}, 100)


def test_a_row_of_each_class_per_split_is_enough():
    made = bins((3, 3), {"train": 2, "validation": 2, "test": 2}, 100)
    assert [place.counts for place in made] == [(1, 1)] * 3


def test_sizes_of_partitions_are_even():
    made = bins((700, 301), {"train": 1001}, 250)
    assert [place.rows for place in made] == [200, 200, 200, 200, 201]
    assert list(accumulate(place.counts[1] for place in made))[-1] == 301
