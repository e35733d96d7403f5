"""The arithmetic behind the benchmark's lines."""

import pytest

from benchmarks.queue_statistics import Spread, percentile, ratios, short, spread


def test_a_spread_holds_median_least_and_greatest() -> None:
    assert spread([5.0, 1.0, 3.0]) == Spread(3.0, 1.0, 5.0)


def test_a_ratio_is_taken_pair_by_pair_and_not_of_the_medians() -> None:
    assert ratios([10.0, 40.0, 30.0], [10.0, 10.0, 20.0]) == Spread(1.5, 1.0, 4.0)


def test_ratios_refuse_repetitions_that_are_not_pairs() -> None:
    with pytest.raises(ValueError):
        ratios([1.0, 2.0], [1.0])


def test_a_ratio_is_level_when_its_pairs_fall_on_both_sides_of_one() -> None:
    assert ratios([9.0, 11.0], [10.0, 10.0]).level
    assert not ratios([11.0, 12.0], [10.0, 10.0]).level


def test_a_percentile_is_one_of_the_values() -> None:
    values = [float(n) for n in range(100, 0, -1)]
    assert (percentile(values, 0.5), percentile(values, 0.99), percentile([7.0], 0.99)) == (50.0, 99.0, 7.0)


def test_printed_numbers_have_four_significant_digits() -> None:
    assert (short(12345.678), short(0.00123456)) == (12350.0, 0.001235)
