"""The noisy even-trigonometric summary and its release: NIPS 2013, Algorithms 1 and 2, with better degrees and noise.

The mechanism measures once, or twice where the number of rows is private. `smooth_answers` answers queries from the
resulting `TrigonometricSummary`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from synthdp.checks import check_one_of, check_share, check_whole
from synthdp.curator import Curator
from synthdp.errors import ParameterError
from synthdp.measurements import Measurements, NoiseLaw
from synthdp.mechanisms.mechanism import HasPrivacyCost
from synthdp.mechanisms.row_count import RowCount, count_rows
from synthdp.privacy.loss import PrivacyLoss, PureDP, Remaining, Spend
from synthdp.queries.linear import Total
from synthdp.randomness import RandomState
from synthdp.release import Release
from synthdp.schema.schema import Schema
from synthdp.works.smooth.chebyshev import MAX_TERMS, ChebyshevTensor
from synthdp.works.smooth.kernels import check_width, kernel_degrees, kernel_smoothness
from synthdp.works.smooth.smooth_answers import TrigonometricSummary
from synthdp.works.smooth.support import CELLS, cells_read, ordered_columns, scaled_points, smooth_domain
from synthdp.works.smooth.theory import check_law, improved_degrees, law_named, least_error_degrees, paper_degrees
from synthdp.works.smooth.whole_class import class_degrees

RULES = ("least_error", "improved", "paper")
"""Names of the rules that choose the number of degrees from n, d, K and the loss."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SmoothSummary(HasPrivacyCost):
    """Release noisy averages of Chebyshev products, from which any smooth query is answered.

    Wang, Fan, Zhang, Wang, NIPS 2013, Algorithms 1 and 2; docs/mechanisms/smooth-queries.md.

    Costs ``spend``, fixed before any row is read, for the curator's neighbours. Under add_remove ``total_share`` of it
    goes to the number of rows, which is public under replace_one.

    Parameters
    ----------
    smoothness
        K, the order of the derivatives that the queries have.
    sigma
        Width of the Gaussian kernels that will be asked, in place of ``smoothness``: K is then the largest of at most
        2 sigma^2, for which B = 1, and ``"least_error"`` minimises the error of such a kernel.
    degrees
        t, the number of degrees 0 ... t - 1 per column, or a rule: ``"least_error"`` minimises truncation + noise,
        ``"improved"`` is n^(1/(d+K)) or n^(1/(d/2+K)), ``"paper"`` is n^(1/(2d+K)).
    columns
        Names of the columns to use; default: all numeric and ordinal ones.
    spend
        Privacy loss that a release may cost.
    total_share
        Share of the cost for the number of rows, under add_remove.
    cells
        Most cells per column on which the table is read.
    law
        A law of noise to insist on: ``"laplace"`` (the paper's), ``"linf"`` or ``"gaussian"``; default: the least noise.
    weighting
        ``"equal"``: the same noise in every average, the least for one query.  ``"degree"``: noise of variance ∝ |m|^K,
        the least for the worst of all queries at once (Ding, He, Zhu, arXiv 2602.01607); of Gaussian noise.

    Raises
    ------
    ParameterError
        If a setting is out of range.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import synthdp as sd
    >>> table = pd.DataFrame({"x": np.linspace(-1, 1, 2000)})
    >>> schema = sd.Schema({"x": sd.Continuous(-1, 1)})
    >>> curator = sd.Curator(table, schema=schema, budget=sd.PureDP(1.0), neighbors="replace_one")
    >>> release = sd.SmoothSummary(smoothness=4).release(curator)
    >>> answer = release.answer(lambda x: x[:, 0] ** 2)  # the mean of a smooth function
    >>> bool(abs(float(answer) - 1 / 3) < 0.05)
    True
    """

    smoothness: int = 2
    sigma: float | None = None
    degrees: int | str = "least_error"
    columns: Sequence[str] | None = None
    spend: Spend = Remaining()
    total_share: float = 0.05
    cells: int = CELLS
    law: NoiseLaw | str | None = None
    weighting: Literal["equal", "degree"] = "equal"

    def __post_init__(self) -> None:
        check_whole("smoothness", self.smoothness)
        check_one_of("weighting", self.weighting, ("equal", "degree"))
        if self.weighting == "degree" and self.sigma is not None:
            raise ParameterError("sigma cannot be used with weighting 'degree': give smoothness instead")
        if self.sigma is not None:
            check_width(self.sigma)
        if isinstance(self.degrees, str) and self.degrees not in RULES:
            raise ParameterError(f"degrees ({self.degrees!r}) must be a whole number or one of: {', '.join(RULES)}")
        if not isinstance(self.degrees, str):
            check_whole("degrees", self.degrees, least=2)
        check_whole("cells", self.cells, least=2)
        check_share("total_share", self.total_share)
        object.__setattr__(self, "law", law_named(self.law))

    def release(self, curator: Curator, *, random_state: RandomState = None) -> Release[TrigonometricSummary]:
        """Measure the averages and return them as a summary with the number of rows.

        Costs ``spend``, for the curator's neighbours.

        Parameters
        ----------
        curator
            The curator that holds the table.
        random_state
            Unused: nothing is sampled.

        Raises
        ------
        ParameterError
            If the curator's schema has no ordered column, or the summary would have more than a million terms.  Also if
            the law or the weighting does not suit the loss.
        """
        del random_state
        loss = curator.cost(self.spend)
        check_law(law_named(self.law) if self.weighting == "equal" else NoiseLaw.GAUSSIAN, loss)
        domain = smooth_domain(curator.schema, ordered_columns(curator.schema, self.columns), cells=self.cells)
        self._check_size(len(domain))
        account = curator.open_account(self.spend)
        count = count_rows(account, spend=account.budget.fraction(self.total_share), queries=Total(domain))
        basis = ChebyshevTensor(
            domain,
            self._degrees_for(count, len(domain), loss, account),
            points=tuple(scaled_points(axis) for axis in domain.axes),
            growth=self._growth,
        )
        measured = account.measure(basis, spend=Remaining(), step="Chebyshev averages", law=law_named(self.law))
        return Release(
            mechanism="SmoothSummary",
            output=_summary(basis, measured, count, smoothness=self._order, cells=cells_read(domain, self.cells)),
            loss=loss,
            receipt=curator.receipt(),
            measurements=(*count.measurements, measured),
        )

    @property
    def _order(self) -> int:
        """Return K, the order of derivatives: as set, or by the kernels' width."""
        return self.smoothness if self.sigma is None else kernel_smoothness(self.sigma)

    @property
    def _growth(self) -> float:
        """Return the power of the degree that the noise stddev grows with: 0 for equal weighting, else K / 2."""
        return 0.0 if self.weighting == "equal" else self.smoothness / 2

    def _check_size(self, d: int) -> None:
        """Raise ParameterError if the degrees over d columns give too many terms."""
        least = 2 if isinstance(self.degrees, str) else self.degrees
        if least**d > MAX_TERMS:
            raise ParameterError(
                f"{least} degrees over {d} columns give {least}^{d} terms, and at most {MAX_TERMS} are possible: "
                "name fewer columns, or use SmoothSynthesis"
            )

    def _degrees_for(self, count: RowCount, d: int, loss: PrivacyLoss, account: Curator) -> int:
        """Return the number of degrees: as set or by the named rule, at most as many as `MAX_TERMS` allows.

        With ``weighting="degree"`` the rules but "paper" are all `class_degrees`.
        """
        if not isinstance(self.degrees, str):
            return self.degrees
        pure = isinstance(account.budget, PureDP)
        neighbors, rows = account.adjacency.neighbors, max(1.0, count.rows / account.adjacency.rows)
        if self.degrees == "paper":
            t = paper_degrees(count.rows, d=d, smoothness=self._order)
        elif self.weighting == "degree":
            t = class_degrees(
                rows, d=d, smoothness=self.smoothness, loss=loss, neighbors=neighbors, growth=self._growth
            )
        elif self.degrees == "improved":
            t = improved_degrees(count.rows, d=d, smoothness=self._order, pure=pure)
        elif self.sigma is not None:
            t = kernel_degrees(rows, d=d, sigma=self.sigma, loss=loss, neighbors=neighbors)
        else:
            t = least_error_degrees(rows, d=d, smoothness=self._order, loss=loss, neighbors=neighbors)
        return int(min(t, math.floor(MAX_TERMS ** (1 / d) * (1 + 1e-12))))  # a root that is whole may be rounded down


def _summary(
    basis: ChebyshevTensor, measured: Measurements, count: RowCount, *, smoothness: int, cells: int
) -> TrigonometricSummary:
    """Return the measured sums as noisy averages, (t, ..., t), with 1 at degree 0, in a `TrigonometricSummary`."""
    averages = np.concatenate([[1.0], measured.answers * basis.denominator / basis.ones / count.rows])
    return TrigonometricSummary(
        names=basis.domain.names,
        schema=Schema({axis.name: axis.column for axis in basis.domain.axes}),
        averages=averages.reshape((basis.t,) * len(basis.domain)),
        stddev=measured.stddev / count.rows,
        rows=count.rows,
        rows_stddev=count.stddev,
        smoothness=smoothness,
        cells=cells,
        growth=basis.growth,
    )
