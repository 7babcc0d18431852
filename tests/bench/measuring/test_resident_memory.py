import sys

import numpy as np
import pytest

from bench.other_tools.resident_memory import MemoryGrowth

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Linux alone says it")
BYTES = 200_000_000


def test_it_says_the_peak_of_what_was_held_since_it_began() -> None:
    # What was held before, and let go, does not count.
    np.ones(2 * BYTES, np.uint8)
    growth = MemoryGrowth()
    np.ones(BYTES, np.uint8)
    np.ones(BYTES // 2, np.uint8)
    assert growth.peak_mb() == pytest.approx(BYTES / 1e6, rel=0.05)
