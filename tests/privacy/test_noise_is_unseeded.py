import multiprocessing
import random

import numpy as np
import pytest

from synthdp.privacy import noise

ZEROS = np.zeros(40, dtype=np.int64)

DRAWS = {
    "laplace": lambda: noise.discrete_laplace(ZEROS, scale=1000.0).tolist(),
    "gaussian": lambda: noise.discrete_gaussian(ZEROS, scale=1000.0).tolist(),
    "linf_knorm": lambda: noise.linf_knorm(ZEROS, scale=1000.0).tolist(),
    "noisy_max": lambda: [noise.noisy_max(ZEROS, scale=1.0) for _ in range(40)],
    "exponential_mechanism": lambda: [noise.exponential_mechanism(ZEROS, scale=1.0) for _ in range(40)],
    "threshold": lambda: list(
        noise.laplace_threshold({str(i): 10**6 for i in range(40)}, scale=1000.0, threshold=1).values()
    ),
}


@pytest.mark.parametrize("name", DRAWS)
def test_seeding_every_generator_does_not_repeat_noise(name):
    def seeded_draw():
        random.seed(7)
        np.random.seed(7)  # noqa: NPY002 - the legacy global seed is what is tried
        return DRAWS[name]()

    assert seeded_draw() != seeded_draw()


def _draw_into(name, queue):
    queue.put(DRAWS[name]())


@pytest.mark.sampled
@pytest.mark.parametrize("name", DRAWS)
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_forked_children_do_not_share_noise(name):
    fork = multiprocessing.get_context("fork")
    DRAWS[name]()  # the generator is in use before the fork
    queue = fork.Queue()
    children = [fork.Process(target=_draw_into, args=(name, queue)) for _ in range(2)]
    for child in children:
        child.start()
    drawn = [queue.get(timeout=60) for _ in children]
    for child in children:
        child.join(timeout=60)
    assert drawn[0] != drawn[1]
    assert DRAWS[name]() not in drawn
