"""Maximum entropy over all cells of a small domain, from main effects and interactions of any order.

The order of an effect is its number of columns.  Where all cells are listed, no junction tree is needed, however many
tables are measured.  Empirical Bayes learns from the effects of each order how far these are trusted.  The effects come
from `consistency`.  No private row is read.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from synthdp.arrays import BoolArray, Clique, FloatArray, IntArray, Weights
from synthdp.checks import check_number, check_whole
from synthdp.errors import ParameterError
from synthdp.fit.consistency import GLSEffects
from synthdp.queries.contingency import Shape, project_to_simplex

SPREADS = 2.0 ** np.arange(-12, 3.5, 0.5)
"""Grid of standard deviations for the potentials of one order; `likeliest_spread` picks one of them.  At the least,
effects of the order have no influence; at the largest, they are followed as closely as noise allows.  A numerical
tolerance: neighbours differ by a factor of sqrt(2), and finer steps would take time."""

FLOOR = 0.1
"""Least count of a code in the margins that the fit starts from, in standard deviations of its noise.  A larger value
fills codes that may be empty; a smaller one makes the features of rare codes very large.  A numerical tolerance: half and
twice of it change the three-way error of two tables by -.1 and -.5 % (docs/benchmarks/constants.md)."""

NEARER = 0.1
"""Prior spread of the last step, as a fraction of a cell's noise; a cell with 1 / NEARER standard deviations of rows moves
half of the way to its noisy count.  A larger value follows counts, and their noise, more closely.  Tuned: .5 is as good
on wide tables and worse on NLTCS at epsilon .1 to 1 (docs/benchmarks/nltcs.md)."""

LEAST_VARIANCE = 1e-9
"""Floor of a feature's variance under the model, so that no division by 0 occurs.  A numerical tolerance."""

BLOCK_CELLS = 64
"""Neighbouring columns are transformed together by one matrix of at most this many rows, which is faster.  A safety limit
of memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedEntropy:
    """Settings of a maximum-entropy fit over all cells of a small domain, which are listed.

    The model is log p(x) = log p_0(x) + sum of potentials times features of x, less a constant.  A feature of some
    columns is a product of one function of each.  The functions are orthonormal under p_0: independent columns with
    their noisy margins.

    The fit minimises total * log Z - potentials * y + 1/2 sum v potentials^2.  It begins with main effects and pairs,
    and adds one order at a time.  Here y are the noisy sums of the features, and Z is the normalising sum.  The ridge v
    is stddev^2 / (total * V * spread^2).  It gives the potentials of an order a normal prior with a common spread.  V
    is the variance of the feature under the model of lower orders.  The spread is the likeliest one, given the distance
    of the noisy effects from that model.

    One spread for all potentials of an order allows too little for combinations that never occur.  Tables of many cells
    have many of these.  So in a last step the fitted model takes the place of p_0.  With the ridge of this step, a cell
    with more rows moves nearer to its noisy count; see `NEARER`.

    Parameters
    ----------
    ridge_one_way
        The ridge v of main effects, in multiples of their noise, > 0.
    max_cells
        Most cells of a domain that is listed, >= 1; with 1 no release measures all interactions.
    steps
        Most quasi-Newton steps for each order, >= 1.
    tolerance
        The fit of an order ends when a step lowers the objective of all rows by less than this, > 0, times the
        objective per row (in nats, at least 1).

    Raises
    ------
    ParameterError
        If a setting is outside its range.
    """

    ridge_one_way: float = 0.05
    max_cells: int = 2**18
    steps: int = 1000
    tolerance: float = 2e-4

    def __post_init__(self) -> None:
        check_number("ridge_one_way", self.ridge_one_way, above=0)
        check_whole("max_cells", self.max_cells)
        check_whole("steps", self.steps)
        check_number("tolerance", self.tolerance, above=0)

    def fits(self, shape: Sequence[int]) -> bool:
        """Return whether a domain has at most ``max_cells`` cells, so that it can be listed."""
        return math.prod(int(k) for k in shape) <= self.max_cells

    def fit(self, effects: GLSEffects, *, possible: BoolArray | None = None) -> Weights:
        """Return the probability of every cell, (cells,) flat in C order.

        Parameters
        ----------
        effects
            Measured effects; effects without a measurement have potential 0.
        possible
            (cells,) False where a combination cannot occur: it gets probability 0.

        Raises
        ------
        ParameterError
            If there are too many cells, or none is possible.
        """
        if not self.fits(effects.shape):
            raise ParameterError(
                f"a domain of shape {effects.shape} has too many cells to be listed: use at most {self.max_cells} cells"
            )
        total = max(effects.total, 1.0)
        margins = [_margin(effects, j, total) for j in range(len(effects.shape))]
        basis = _Basis(effects.shape, margins)
        log_base = _logs_of_products(margins)
        if possible is not None:
            log_base[~possible] = -np.inf
        if not np.isfinite(log_base).any():
            raise ParameterError("possible must allow at least one combination of codes")
        seen = _Observed.of(effects, basis)
        weights, potentials = _softmax(log_base), np.zeros(len(seen.at))
        ridges = self.ridge_one_way * seen.stddev
        for order in range(2, 1 + max(seen.order, default=0)):
            now, used = seen.order == order, seen.order <= order
            expected = basis.features(weights)[seen.at]
            variance = np.maximum(basis.squares(weights)[seen.at] - expected**2, LEAST_VARIANCE)
            gap = seen.values[now] - total * expected[now]
            response = total * variance[now]
            spread = likeliest_spread(gap, response, seen.stddev[now])
            ridges[now] = seen.stddev[now] ** 2 / (response * spread**2)
            problem = _Problem(basis, log_base, seen.at[used], seen.values[used] / total, ridges[used] / total)
            scale = 1 / np.sqrt(variance[used] + problem.ridges)
            potentials[used] = problem.minimum(
                potentials[used], scale, steps=self.steps, tolerance=self.tolerance / total
            )
            weights = problem.weights(potentials[used])
        return self._nearer(weights, effects, total=total) if len(seen.at) else weights

    def _nearer(self, weights: Weights, effects: GLSEffects, *, total: float) -> Weights:
        """Return (cells,) weights, moved as far towards the measured effects as noise allows: the last step of a fit.

        The earlier steps give all potentials of an order one spread, which leaves too many rows where combinations
        never occur.
        """
        basis = _Basis(effects.shape, [np.full(n, 1 / n) for n in effects.shape])  # noise is independent in it
        seen = _Observed.of(effects, basis)
        with np.errstate(divide="ignore"):
            log_weights = np.log(weights)
        expected = basis.features(weights)[seen.at]
        variance = np.maximum(basis.squares(weights)[seen.at] - expected**2, LEAST_VARIANCE)
        ridges = seen.stddev**2 / (NEARER * _noise_of_cell(effects) * total)
        problem = _Problem(basis, log_weights, seen.at, seen.values / total, ridges)
        potentials = problem.minimum(
            np.zeros(len(seen.at)), 1 / np.sqrt(variance + ridges), steps=self.steps, tolerance=self.tolerance / total
        )
        return problem.weights(potentials)


def _noise_of_cell(effects: GLSEffects) -> float:
    """Return the mean stddev of noise of a cell, in rows, in the measured tables with the most columns.

    The prior spread of the last step is `NEARER` times as large.
    """
    most = max(map(len, effects.precisions), default=0)
    return float(np.mean([value**-0.5 for clique, value in effects.precisions.items() if len(clique) == most]))


def _margin(effects: GLSEffects, column: int, total: float) -> FloatArray:
    """Return a column's estimated probability of each code, (k,), all above 0; the fit starts from these margins."""
    stddev = effects.precisions[(column,)] ** -0.5 if (column,) in effects.precisions else 0.0
    counts = project_to_simplex(effects.table((column,)), total) + max(FLOOR * stddev, 1e-6 * total)
    return np.asarray(counts / counts.sum(), np.float64)


def _logs_of_products(margins: Sequence[FloatArray]) -> FloatArray:
    """Return the log-probability of every cell, (cells,), of independent columns with these margins; a fit starts there."""
    logs = np.zeros(1)
    for margin in margins:
        logs = np.add.outer(logs, np.log(margin)).ravel()
    return logs


def likeliest_spread(gap: FloatArray, response: FloatArray, stddev: FloatArray) -> float:
    """Return the value of `SPREADS` that makes the noisy effects of one order (number of columns) likeliest.

    The spread becomes the prior standard deviation of this order's potentials: the larger, the more its effects are
    trusted (empirical Bayes).  Given a spread s, a gap is normal with variance (response s)^2 + stddev^2.

    Parameters
    ----------
    gap
        (k,) noisy sums of the order's features less the model's sums, in rows.
    response
        (k,) change of the model's sum of a feature for a potential of 1, in rows.
    stddev
        (k,) stddev of the noise of the noisy sums, in rows.
    """
    variance = np.multiply.outer(SPREADS**2, response**2) + stddev**2
    misfit = (np.log(variance) + gap**2 / variance).sum(axis=1)
    return float(SPREADS[int(np.argmin(misfit))])


class _Basis:
    """The features of all cells: products of one function per column, orthonormal under independent margins."""

    def __init__(self, shape: Shape, margins: Sequence[FloatArray]) -> None:
        self.shape, self.cells = shape, math.prod(shape)
        columns = [_orthonormal(margin) for margin in margins]
        self.plain = [_contrasts(n) for n in shape]
        self.change = [new @ old.T / len(old) for new, old in zip(columns, self.plain, strict=True)]
        self._rows = _blocks(columns)
        self._columns = [block.T.copy() for block in self._rows]
        self._squares = _blocks([column**2 for column in columns])

    def features(self, weights: FloatArray) -> FloatArray:
        """Return the means of all features under (cells,) weights, (cells,), by fast transforms."""
        return _transformed(weights, self._rows)

    def squares(self, weights: FloatArray) -> FloatArray:
        """Return the means of all squared features under (cells,) weights, (cells,), for their variances."""
        return _transformed(weights, self._squares)

    def combined(self, potentials: FloatArray) -> FloatArray:
        """Return for every cell, (cells,), the sum of its features times (cells,) potentials."""
        return _transformed(potentials, self._columns)


def _contrasts(n: int) -> FloatArray:
    """Return n functions of n codes, (n, n), one a row, orthogonal, of mean square 1: a constant and Helmert contrasts.

    Effects are sums of products of these functions.
    """
    found = np.zeros((n, n))
    found[0] = 1.0
    for k in range(1, n):
        found[k, :k], found[k, k] = 1.0, -k
        found[k] *= math.sqrt(n / (k * (k + 1)))
    return found


def _orthonormal(margin: FloatArray) -> FloatArray:
    """Return the contrasts made orthonormal under a margin (Gram-Schmidt), (n, n), one function a row.

    The features are then uncorrelated where the fit starts, which speeds it up.
    """
    root = np.sqrt(margin)
    directions, sizes = np.linalg.qr((_contrasts(len(margin)) * root).T)
    return np.asarray(np.sign(np.diag(sizes))[:, None] * directions.T / root, np.float64)


def _blocks(columns: Sequence[FloatArray]) -> list[FloatArray]:
    """Return Kronecker products of neighbouring matrices, each up to `BLOCK_CELLS` rows, to apply fewer of them."""
    blocks: list[FloatArray] = []
    for column in columns:
        if blocks and len(blocks[-1]) * len(column) <= BLOCK_CELLS:
            blocks[-1] = np.asarray(np.kron(blocks[-1], column), np.float64)
        else:
            blocks.append(column)
    return blocks


def _transformed(values: FloatArray, blocks: Sequence[FloatArray]) -> FloatArray:
    """Return a flat table, (cells,), multiplied by one matrix along each block of its axes, in order.

    The (cells, cells) product of all these matrices is never made.
    """
    for block in blocks:
        values = np.asarray((block @ values.reshape(len(block), -1)).T, np.float64)
    return np.ascontiguousarray(values).ravel()


@dataclass(frozen=True, slots=True, eq=False)
class _Observed:
    """The measured features: position in the basis, number of columns, noisy sum and its noise in rows, each (n,)."""

    at: IntArray
    order: IntArray
    values: FloatArray
    stddev: FloatArray

    @classmethod
    def of(cls, effects: GLSEffects, basis: _Basis) -> _Observed:
        """Convert measured effects to noisy sums of the basis's features, their stddevs and their numbers of columns."""
        values, variance, order = (np.zeros(basis.shape) for _ in range(3))
        values.flat[0] = effects.total
        for clique, effect in effects.effects.items():
            at, sums = _sums(clique, np.asarray(effect), basis)
            values[at] = np.asarray(sums, np.float64)
            variance[at] = math.prod(basis.shape[j] for j in clique) / effects.precisions[clique]
            order[at] = len(clique)
        found = np.flatnonzero(order)
        changed = _transformed(values.ravel(), _blocks(basis.change))[found]
        noise = _transformed(variance.ravel(), _blocks([change**2 for change in basis.change]))[found]
        return cls(found, order.ravel()[found].astype(np.int64), changed, np.sqrt(noise))


def _sums(clique: Clique, effect: FloatArray, basis: _Basis) -> tuple[tuple[slice | int, ...], FloatArray]:
    """Return where a clique's features lie in the array of all features, and their noisy sums over the rows.

    The sums are computed from the clique's effect.  These features are products of `_contrasts`, not yet orthonormal.
    """
    for axis, j in enumerate(clique):
        effect = np.moveaxis(np.tensordot(basis.plain[j][1:], effect, axes=(1, axis)), 0, axis)
    return tuple(slice(1, None) if j in clique else 0 for j in range(len(basis.shape))), np.asarray(effect, np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class _Problem:
    """The dual problem of regularised maximum entropy for some features; means and ridges are divided by the rows."""

    basis: _Basis
    log_base: FloatArray
    at: IntArray
    means: FloatArray
    ridges: FloatArray

    def minimum(self, start: FloatArray, scale: FloatArray, *, steps: int, tolerance: float) -> FloatArray:
        """Return the potentials of the measured features, (n,), that minimise the dual, by L-BFGS.

        The optimiser's variables are the potentials divided by ``scale``, (n,), so that all have similar curvature.
        """

        def evaluate(x: FloatArray) -> tuple[float, FloatArray]:
            potentials = x * scale
            log_weights = self._log_weights(potentials)
            top = float(log_weights.max())
            weights = np.exp(log_weights - top)
            mass = float(weights.sum())
            pull = self.ridges * potentials
            gradient = self.basis.features(weights / mass)[self.at] + pull - self.means
            return top + math.log(mass) + float(potentials @ (0.5 * pull - self.means)), gradient * scale

        from scipy.optimize import minimize  # takes a tenth of a second, which most releases need not

        found = minimize(
            evaluate, start / scale, jac=True, method="L-BFGS-B",
            options={"maxiter": steps, "maxcor": 20, "ftol": tolerance, "gtol": 1e-9},
        )  # fmt: skip
        return np.asarray(found.x * scale, np.float64)

    def weights(self, potentials: FloatArray) -> FloatArray:
        """Return the probability of every cell, (cells,), under given potentials of the measured features, (n,)."""
        return _softmax(self._log_weights(potentials))

    def _log_weights(self, potentials: FloatArray) -> FloatArray:
        """Return the log-probability of every cell, (cells,), up to a constant, under features' potentials, (n,)."""
        every = np.zeros(self.basis.cells)
        every[self.at] = potentials
        return self.basis.combined(every) + self.log_base


def _softmax(log_weights: FloatArray) -> FloatArray:
    """Return exp of (cells,) logarithms, normalised to sum 1."""
    weights = np.exp(log_weights - log_weights.max())
    return np.asarray(weights / weights.sum(), np.float64)
