"""Cases of a long loop: a stated sample in `make test-slow`, and all of it in `make soak`."""

import pytest


def sample_and_all(sample: int, all_of_it: int) -> list[object]:
    """Returns the two lengths of a loop as parameters of a test, each with its mark."""
    return [pytest.param(sample, marks=pytest.mark.slow), pytest.param(all_of_it, marks=pytest.mark.soak)]
