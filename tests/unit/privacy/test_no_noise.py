"""The stand-ins for noise replace every operation that draws, and record how each was asked."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
from no_noise import EXACT, Draw, recorded, replayed, without_noise

from synthdp.errors import InternalError
from synthdp.privacy import noise

VALUES = np.array([3, -1, 7])


def test_every_operation_that_draws_has_a_stand_in():
    public = {
        name
        for name, operation in vars(noise).items()
        if inspect.isfunction(operation) and operation.__module__ == noise.__name__ and not name.startswith("_")
    }
    drawing = {name for name in public if "Costs" in (getattr(noise, name).__doc__ or "")}
    assert drawing == set(EXACT)


@pytest.mark.parametrize("name", EXACT)
def test_a_stand_in_is_asked_like_the_operation(name):
    assert inspect.signature(EXACT[name]).parameters.keys() == inspect.signature(getattr(noise, name)).parameters.keys()


def test_without_noise_answers_are_exact(monkeypatch):
    without_noise(monkeypatch)
    assert noise.discrete_laplace(VALUES, scale=1e9).tolist() == VALUES.tolist()
    assert noise.noisy_max(VALUES, scale=1e9) == 2
    assert noise.geometric(scale=1e9) == 0
    assert noise.laplace_threshold({"b": 5, "a": 4, "c": 1}, scale=1e9, threshold=4) == {"a": 4, "b": 5}


@pytest.mark.parametrize(("values", "scale"), [(VALUES.astype(float), 1.0), (VALUES[None], 1.0), (VALUES, 0.0)])
def test_a_stand_in_refuses_what_the_operation_refuses(monkeypatch, values, scale):
    without_noise(monkeypatch)
    with pytest.raises(InternalError):
        noise.discrete_gaussian(values, scale=scale)


def test_a_trace_says_what_was_asked_and_can_be_replayed(monkeypatch):
    first = recorded(monkeypatch)
    drawn = noise.discrete_laplace(VALUES, scale=50.0).tolist(), noise.geometric(scale=2.0)
    monkeypatch.undo()
    second = replayed(monkeypatch, first)
    assert (noise.discrete_laplace(VALUES * 0, scale=50.0).tolist(), noise.geometric(scale=2.0)) == drawn
    assert first.draws == second.draws
    assert first.draws == [Draw("discrete_laplace", (3,), (("scale", 50.0),)), Draw("geometric", (), (("scale", 2.0),))]


def test_another_shape_or_scale_is_another_trace(monkeypatch):
    first = recorded(monkeypatch, exact=True)
    noise.discrete_laplace(VALUES, scale=1.0)
    noise.discrete_laplace(VALUES[:2], scale=1.0)
    noise.discrete_laplace(VALUES, scale=2.0)
    noise.linf_knorm(VALUES, scale=1.0)
    assert len(set(first.draws)) == 4
