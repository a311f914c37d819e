"""The arithmetic of each law of noise, against what is drawn from it."""

from __future__ import annotations

import numpy as np
import pytest

from synthdp.measurements import Noise, NoiseLaw
from synthdp.privacy.calibration import Calibration


def drawn(law: NoiseLaw, scale: float, k: int, times: int) -> np.ndarray:
    plan = Calibration(Noise(law=law, scale=scale, k=k), 1, 1.0)
    return np.array([plan.noised(np.zeros(k, np.int64)) for _ in range(times)])


@pytest.mark.landing
@pytest.mark.parametrize("law", list(NoiseLaw))
def test_tail_bounds_hold_for_the_noise_and_are_not_idle(law):
    worst = np.abs(drawn(law, 5.0, 20, 300)).max(axis=1)
    unlikely, likely = (Noise(law=law, scale=5.0, k=20).tail(beta, count=20) for beta in (1e-9, 0.5))
    assert (worst <= unlikely).all()
    assert (worst <= likely).mean() > 0.35
    assert unlikely < 20 * np.median(worst)


@pytest.mark.landing
@pytest.mark.parametrize(
    ("law", "k"),
    [
        pytest.param(law, k, marks=[pytest.mark.slow] * (k != (1 if law is NoiseLaw.LINF else 20)))
        for law in NoiseLaw
        for k in (1, 2, 20)
    ],
)  # the quick ones take few draws
def test_a_coordinate_exceeds_its_quantile_so_often_as_it_says(law, k):
    """Within 6.5 standard errors: a scale that is 30 % off is found.  The lattice is fine at this scale."""
    noise, times = Noise(law=law, scale=1000.0, k=k), 3000
    used = {NoiseLaw.LINF: 1}.get(law, k)  # of this law the numbers of one vector are not independent
    sizes = np.abs(drawn(law, noise.scale, k, times // used)[:, :used]).ravel()
    for miss in (0.5, 0.05):
        beyond = (sizes > noise.stddev * law.distribution.quantile(miss, k)).mean()
        assert beyond == pytest.approx(miss, abs=6.5 * np.sqrt(miss * (1 - miss) / times))


@pytest.mark.parametrize("miss", [0.9, 0.05, 1e-6])
def test_on_one_number_the_k_norm_law_is_the_laplace_law(miss):
    laplace, linf = (law.distribution for law in (NoiseLaw.LAPLACE, NoiseLaw.LINF))
    assert linf.quantile(miss, 1) == pytest.approx(laplace.quantile(miss, 1))
    assert linf.stddev(7.0, 1) == pytest.approx(laplace.stddev(7.0, 1), rel=0.01)
