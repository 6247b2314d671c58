"""Arrays of numbers, by the kind of their numbers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Integers = NDArray[np.integer]
Bools = NDArray[np.bool_]
