"""A synthetic table from noisy smooth averages: Wang's slides, Algorithm 1, its practical variant, and a better one.

A program that asks the curator and never sees a row.  Each variant has a file of its own; here are their settings and
what they share.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

from synthdp.checks import check_one_of, check_share, check_whole
from synthdp.curator.curator import Curator
from synthdp.domain.refinement import Refinement
from synthdp.fit.explicit.registry import SOLVERS
from synthdp.measurements import NoiseLaw
from synthdp.mechanisms.protocol import Spender, left_out, part_of
from synthdp.mechanisms.row_count import RowCount, count_rows
from synthdp.mechanisms.smooth.domain import ordered_columns, smooth_domain
from synthdp.mechanisms.smooth.exact import check_columns, exact_synthesis
from synthdp.mechanisms.smooth.practical import practical_synthesis
from synthdp.mechanisms.smooth.product import product_synthesis
from synthdp.mechanisms.smooth.support import Synthesised
from synthdp.privacy.loss import PureDP, Remaining, Spend
from synthdp.queries.total import Total
from synthdp.randomness import Generator, RandomState, generator
from synthdp.release import Release
from synthdp.sampling.synthetic_model import SyntheticModel
from synthdp.schema.schema import Schema
from synthdp.tables.format import TableFormat

VARIANTS = ("product", "practical", "exact")

HOPELESS = 0.3
"""Noise in an average of values in [-1, 1] above which nothing is learnable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SmoothSynthesis(Spender):
    """Synthetic rows of numeric columns that answer smooth queries like the private ones.

    Wang's slides ("Differentially private data release through efficient ... smooth queries"), Algorithm 1 and its
    practical variant, and the recipe of docs/mechanisms/smooth-queries.md.

    Costs ``spend``, fixed before any row is read, for the curator's neighbours.  Under add_remove ``total_share`` of it
    goes to the number of rows, which is public under replace_one.

    Parameters
    ----------
    variant
        ``"product"``: one smooth density per column from its noisy Chebyshev moments, and pairs of columns where the
        noise allows; ``"practical"``: random grid points weighted to meet random low-degree averages; ``"exact"``: all
        grid points and all averages, Algorithm 1 to the letter, for few columns.
    smoothness
        K, the order of the derivatives that the queries have; sets the sizes of ``"exact"``.
    columns
        Names of the columns to synthesise; default: all numeric and ordinal ones.
    spend
        The whole cost.
    total_share
        Share of the cost for the number of rows, under add_remove.
    candidates
        Support points: C random grid points of ``"practical"`` (default 10 000), or draws from the product fit
        (default 4000 or more).
    functions
        R, the number of random averages of ``"practical"``.
    grid
        N, the points per column of ``"practical"``.
    solver
        ``"lp"`` (the L1 program), ``"mw"`` (multiplicative weights) or ``"auto"``: the program for the slides'
        variants; for ``"product"`` multiplicative weights, and only where pairs were measured.

    Raises
    ------
    ParameterError
        If a setting is out of range.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import synthdp as sd
    >>> table = pd.DataFrame({"x": np.linspace(-1, 1, 2000), "y": np.linspace(1, -1, 2000)})
    >>> schema = sd.Schema({"x": sd.Continuous(-1, 1), "y": sd.Continuous(-1, 1)})
    >>> curator = sd.Curator(table, schema=schema, budget=sd.PureDP(1.0), neighbors="replace_one")
    >>> sd.SmoothSynthesis().release(curator, random_state=0).sample(100).shape
    (100, 2)
    """

    variant: str = "product"
    smoothness: int = 2
    columns: tuple[str, ...] | None = None
    spend: Spend = Remaining()
    total_share: float = 0.05
    candidates: int | None = None
    functions: int = 100
    grid: int = 64
    solver: str = "auto"

    def __post_init__(self) -> None:
        check_one_of("variant", self.variant, VARIANTS)
        check_one_of("solver", self.solver, ("auto", *SOLVERS))
        for name, least in (("smoothness", 1), ("functions", 1), ("grid", 2)):
            check_whole(name, getattr(self, name), least=least)
        if self.candidates is not None:
            check_whole("candidates", self.candidates)
        check_share("total_share", self.total_share)

    def release(self, curator: Curator, *, random_state: RandomState = None) -> Release[SyntheticModel]:
        """Measure smooth averages and fit a distribution to them.

        Costs ``spend``, for the curator's neighbours.

        Parameters
        ----------
        curator
            Who holds the table.
        random_state
            Seed of the random functions and candidates; it never reaches noise.

        Raises
        ------
        ParameterError
            If the curator's schema has no ordered column, or too many for ``"exact"``.
        """
        loss = curator.cost(self.spend)
        schema = self.output_schema(curator.schema)
        rng = generator(random_state)
        account = curator.open_account(self.spend)
        cells = smooth_domain(schema, schema.names, cells=1)
        count = count_rows(account, spend=account.budget.fraction(self.total_share), queries=Total(cells))
        found = self._synthesise(account, schema, count, rng)
        _warn_if_hopeless(found)
        model = SyntheticModel(
            schema=schema,
            domain=found.domain,
            distribution=found.distribution,
            refinements=tuple(Refinement.trivial(axis) for axis in found.domain.axes),
            total=count.rows,
            format=TableFormat.default(schema),
        )
        return Release(
            mechanism=f"SmoothSynthesis ({self.variant})",
            output=model,
            loss=loss,
            receipt=curator.receipt(notes=(*found.notes, *left_out(curator.schema, schema), *model.notes)),
            measurements=(*count.measurements, *found.measurements),
        )

    def output_schema(self, schema: Schema) -> Schema:
        """Return the columns that are synthesised: the ordered ones, or those named.

        Raises
        ------
        ParameterError, SchemaError
            If there is none, or there are too many for ``"exact"``, or the rules about them contradict each other.
        """
        names = ordered_columns(schema, self.columns)
        if self.variant == "exact":
            check_columns(len(names))
        return part_of(schema, names)

    def _synthesise(self, account: Curator, schema: Schema, count: RowCount, rng: Generator) -> Synthesised:
        law = NoiseLaw.LAPLACE if isinstance(account.budget, PureDP) else None
        match self.variant:
            case "exact":
                return exact_synthesis(
                    account, schema, count, smoothness=self.smoothness, solver=self.solver, law=law, rng=rng
                )
            case "practical":
                return practical_synthesis(
                    account,
                    schema,
                    count,
                    functions=self.functions,
                    candidates=self.candidates or 10_000,
                    grid=self.grid,
                    solver=self.solver,
                    law=law,
                    rng=rng,
                )
        return product_synthesis(account, schema, count, candidates=self.candidates, solver=self.solver, rng=rng)


def _warn_if_hopeless(found: Synthesised) -> None:
    if found.stddev > HOPELESS:
        warnings.warn(
            f"the noise in each average has stddev {found.stddev:.2g} where 1 is the most an average can be: "
            "nothing is learnable; use more rows, fewer columns or a larger budget",
            stacklevel=3,
        )
