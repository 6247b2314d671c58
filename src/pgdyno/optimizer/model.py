"""The model of the objective: the Gaussian process on the measured points, in standardised targets."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from pgdyno.optimizer.gp import Posterior, fit
from pgdyno.optimizer.observation import Data
from pgdyno.optimizer.targets import Scaled, scale

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]

SAMPLES = 0


@dataclass(frozen=True, slots=True)
class Model:
    """A fitted model. `tried_mean` and `tried_sd` are (members, measured points), in standardised targets."""

    posterior: Posterior
    scaled: Scaled
    tried_mean: Matrix
    tried_sd: Matrix

    @property
    def best(self) -> Vector:
        """Return, for each member, the best posterior mean at a measured point."""
        return np.asarray(self.tried_mean.max(axis=1))


def fit_model(data: Data, rng: Generator) -> Model:
    """Fit to the measured points of a history, of which there must be at least one."""
    scaled = scale(data.values)
    x = data.encoding.features(data.measured)
    posterior = fit(x, scaled.targets, data.encoding.groups, counts=data.counts, samples=SAMPLES, rng=rng)
    mean, sd = posterior.predict(x)
    return Model(posterior, scaled, mean, sd)
