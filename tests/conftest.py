"""Settings of all tests."""

import pytest
from hypothesis import HealthCheck, settings
from strictness import STRICT

UNCAPPED = "ignore:data set .* without a cap:UserWarning"
"""Most tests use a ledger to look spends up, not to limit them; the same line is in pyproject.toml."""

# a busy processor is no failure
settings.register_profile("thorough", deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=100)
settings.register_profile("quick", settings.get_profile("thorough"), max_examples=25)
settings.load_profile("quick")  # `pytest --hypothesis-profile thorough -m hypothesis` before a release: .ci/slow


def pytest_configure(config: pytest.Config) -> None:
    """Make every warning an error, whoever raises it, where that was asked for."""
    for line in ["error", UNCAPPED] * STRICT:
        config.addinivalue_line("filterwarnings", line)
