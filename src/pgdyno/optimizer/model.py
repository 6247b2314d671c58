"""The model of the objective: the Gaussian process on the measured points, in standardised targets."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pgdyno.optimizer.gp import Posterior, fit
from pgdyno.optimizer.observation import Data
from pgdyno.optimizer.targets import Scaled, scale

Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Model:
    """A fitted model. `tried_mean` and `tried_sd` are those of the measured points, in standardised targets."""

    posterior: Posterior
    scaled: Scaled
    tried_mean: Vector
    tried_sd: Vector

    @property
    def best(self) -> float:
        """Return the best posterior mean at a measured point."""
        return float(self.tried_mean.max())


def fit_model(data: Data) -> Model:
    """Fit to the measured points of a history, of which there must be at least one."""
    scaled = scale(data.values)
    x = data.encoding.features(data.measured)
    posterior = fit(x, scaled.targets, data.encoding.groups, counts=data.counts)
    return Model(posterior, scaled, *posterior.predict(x))
