"""Mutations of the doubles by order of the environment, for a run of tests that is expected to fail."""

import os
from collections.abc import Iterable

VARIABLE = "VOIDBOT_TEST_MUTATION"


def ordered(known: Iterable[str]) -> set[str]:
    """Return the one mutation that this run was told to make, if it is one of these; usually nothing."""
    return {os.environ.get(VARIABLE, "")} & set(known)  # noqa: TID251  # the suite's own switch
