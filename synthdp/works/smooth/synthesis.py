"""A synthetic table from noisy smooth averages: Wang's slides, Algorithm 1, its practical variant, and a better one.

Each variant has a file of its own; this file has their settings and shared steps.
"""

from __future__ import annotations

import warnings
from contextlib import suppress
from dataclasses import dataclass

from synthdp.checks import check_one_of, check_share, check_whole
from synthdp.curator import Curator
from synthdp.domain.grid import MAX_POINTS
from synthdp.errors import ParameterError
from synthdp.fit.explicit.registry import AUTO, ready, solver_named
from synthdp.measurements import NoiseLaw
from synthdp.mechanisms.mechanism import HasPrivacyCost, left_out, part_of
from synthdp.mechanisms.preflight import salvaged
from synthdp.mechanisms.row_count import RowCount, count_rows
from synthdp.privacy.loss import Remaining, Spend
from synthdp.queries.linear import Total
from synthdp.randomness import Generator, RandomState, generator
from synthdp.release import Release
from synthdp.sampling.synthetic_model import SyntheticModel
from synthdp.schema.schema import Schema
from synthdp.works.smooth.fitted_points import Practical, Sizes, exact_synthesis, practical_synthesis
from synthdp.works.smooth.product import product_synthesis
from synthdp.works.smooth.support import Synthesised, ordered_columns, smooth_domain
from synthdp.works.smooth.theory import check_law, law_named

VARIANTS = ("product", "practical", "exact")
"""The values of ``variant``, which name three algorithms: see `SmoothSynthesis`."""

SMOOTHNESS = 2
"""Default of K, the order of the queries' derivatives. More measures fewer degrees with less noise, and suits smoother
queries only. A convention."""

LEAST = {"smoothness": 1, "candidates": 1, "functions": 1, "grid": 2, "degrees": 2, "order": 1, "lattice": 1}
"""The least value of each setting; smaller ones would leave the algorithm without a point, a function or a degree. A
safety limit."""

MOST = {"candidates": 10_000_000, "grid": MAX_POINTS}
"""The largest value of a setting, where there is one. A safety limit of time and memory."""

ONLY_OF = {
    "smoothness": ("exact",),
    "candidates": ("practical", "product"),
    "functions": ("practical",),
    "grid": ("exact", "practical"),
    "degrees": ("exact", "practical"),
    "order": ("practical",),
    "lattice": ("exact",),
    "law": ("exact", "practical"),
}
"""The variants that each setting applies to; with others it is refused.  Settings that are not here apply to all."""

HOPELESS = 0.3
"""Noise stddev of an average of values in [-1, 1] above which a warning says that nothing can be learned.  A tolerance of
a warning: less would warn of releases that still show something; more would stay silent about pure noise."""

CLEAR = 2.0
"""Noise stddevs of the row count that are added to the estimate before a warning that nothing can be learned.

A tolerance: the true number is larger in one of forty releases only.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SmoothSynthesis(HasPrivacyCost):
    """Release synthetic rows of numeric columns that answer smooth queries like the private rows.

    The variants are Algorithm 1 of Wang's slides ("Differentially private data release through efficient ... smooth
    queries"), its practical variant, and the recipe of docs/mechanisms/smooth-queries.md.

    Costs ``spend``, fixed before any row is read, for the curator's neighbours. Under add_remove ``total_share`` of it
    goes to the number of rows, which is public under replace_one.

    Parameters
    ----------
    variant
        ``"product"``: one smooth density per column from its noisy Chebyshev moments, and pairs of columns where the
        noise allows; ``"practical"``: random grid points weighted to meet random low-degree averages; ``"exact"``: all
        grid points and all averages, Algorithm 1 to the letter, for few columns.
    smoothness
        K, the order of the derivatives that the queries have; default 2. Sizes of ``"exact"`` that are not set follow
        from K.
    columns
        Names of the columns to synthesise; default: all numeric and ordinal ones.
    spend
        Privacy loss that a release may cost.
    total_share
        Share of the cost for the number of rows, under add_remove.
    candidates
        Support points: C random grid points of ``"practical"`` (default 10 000), or draws from the product fit
        (default 4000 or more).
    functions
        R, the number of random averages of ``"practical"``; default: 100, or all where there are fewer.
    grid
        N, the points per column of ``"practical"`` (default 64) and ``"exact"`` (default n^(K/(2d+K))).
    degrees
        t, the number of degrees 0 ... t - 1 per column, of ``"exact"`` (default n^(1/(2d+K))) and of the random functions
        of ``"practical"`` (default 3).
    order
        The most columns that a random function of ``"practical"`` has; default 2.
    lattice
        L, of ``"exact"``: answers and features are rounded to multiples of 1 / L; default n^((d+K)/(2d+K)).
    law
        A law of noise to insist on in ``"exact"`` and ``"practical"``, ``"laplace"`` (the paper's), ``"linf"`` or
        ``"gaussian"``; default: the least noise.
    solver
        ``"lp"`` (the L1 program over columns of multiplicative weights), ``"mw"`` (multiplicative weights alone),
        ``"sifting"`` (the bare program) or ``"auto"``: sifting for ``"exact"``, else the L1 program, and for
        ``"product"`` only where pairs are measured.

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
    smoothness: int | None = None
    columns: tuple[str, ...] | None = None
    spend: Spend = Remaining()
    total_share: float = 0.05
    candidates: int | None = None
    functions: int | None = None
    grid: int | None = None
    degrees: int | None = None
    order: int | None = None
    lattice: int | None = None
    law: NoiseLaw | str | None = None
    solver: str = "auto"

    def __post_init__(self) -> None:
        check_one_of("variant", self.variant, VARIANTS)
        solver_named(self.solver)
        for name, least in LEAST.items():
            if getattr(self, name) is not None:
                check_whole(name, getattr(self, name), least=least, most=MOST.get(name))
        for name, variants in ONLY_OF.items():
            if getattr(self, name) is not None and self.variant not in variants:
                raise ParameterError(
                    f"{name} cannot be used with variant {self.variant!r}, only with "
                    f"{' and '.join(map(repr, variants))}: leave {name} out"
                )
        object.__setattr__(self, "law", law_named(self.law))
        check_share("total_share", self.total_share)

    def prepare(self, curator: Curator) -> None:
        """Raise an error for a noise law that does not suit the budget, or a table whose rows cannot be counted.

        Costs nothing.
        """
        check_law(law_named(self.law), curator.cost(self.spend))
        if not curator.schema.undeclared:
            schema = self.output_schema(curator.schema)
            curator.check(Total(smooth_domain(schema, schema.names, cells=1)), spend=self.spend)

    @salvaged()
    def release(self, curator: Curator, *, random_state: RandomState = None) -> Release[SyntheticModel]:
        """Measure smooth averages, fit a distribution to them, and return the model that draws synthetic rows.

        Costs ``spend``, for the curator's neighbours.

        Parameters
        ----------
        curator
            The curator that holds the table.
        random_state
            Seed of the random functions and candidates; it never reaches noise.

        Raises
        ------
        ParameterError
            If the curator's schema has no ordered column, too many for ``"exact"``, or too few for ``functions``.  Also
            if the law does not suit the loss, or a solver is named for ``"product"`` and one column.
        """
        loss = curator.cost(self.spend)
        check_law(law_named(self.law), loss)
        schema = self.output_schema(curator.schema)
        rng = generator(random_state)
        ready(self.solver)
        account = curator.open_account(self.spend)
        cells = smooth_domain(schema, schema.names, cells=1)
        count = count_rows(account, spend=account.budget.fraction(self.total_share), queries=Total(cells))
        found = self._synthesise(account, schema, count, rng)
        _warn_if_hopeless(found, count)
        model = SyntheticModel.of(schema, found.domain, found.distribution, total=count.rows)
        return Release(
            mechanism=f"SmoothSynthesis ({self.variant})",
            output=model,
            loss=loss,
            receipt=curator.receipt(notes=(*found.notes, *left_out(curator.schema, schema), *model.notes)),
            measurements=(*count.measurements, *found.measurements),
        )

    def output_schema(self, schema: Schema) -> Schema:
        """Return the schema of the synthesised columns: the ordered columns, or the named ones.

        Raises
        ------
        ParameterError, SchemaError
            If there is no column, or there are too many for ``"exact"`` or too few for ``functions``.  Also if a solver
            is named for ``"product"`` and one column, or the rules about the columns contradict each other.
        """
        names = ordered_columns(schema, self.columns)
        if self.variant == "product" and self.solver != AUTO and len(names) == 1:
            raise ParameterError(
                f"solver {self.solver!r} needs two ordered columns, and {names[0]!r} is the only one: leave solver out"
            )
        if self.variant == "exact":
            self._sizes.check(len(names))
        if self.variant == "practical":
            self._practical.functions_of(len(names))
        return part_of(schema, names)

    @property
    def _sizes(self) -> Sizes:
        """Return the settings of the exact algorithm; K is `SMOOTHNESS` if it is not set."""
        return Sizes(
            smoothness=self.smoothness or SMOOTHNESS, degrees=self.degrees, grid=self.grid, lattice=self.lattice
        )

    @property
    def _practical(self) -> Practical:
        """Return the settings of the practical algorithm, with its defaults where a setting is ``None``."""
        given = {name: getattr(self, name) for name in ("functions", "candidates", "grid", "degrees", "order")}
        return Practical(**{name: value for name, value in given.items() if value is not None})

    def _synthesise(self, account: Curator, schema: Schema, count: RowCount, rng: Generator) -> Synthesised:
        """Return the chosen variant's distribution, noisy answers and notes.

        Costs all that the account has left.
        """
        law = law_named(self.law)
        match self.variant:
            case "exact":
                return exact_synthesis(account, schema, count, sizes=self._sizes, solver=self.solver, law=law, rng=rng)
            case "practical":
                return practical_synthesis(
                    account, schema, count, sizes=self._practical, solver=self.solver, law=law, rng=rng
                )
        return product_synthesis(account, schema, count, candidates=self.candidates, solver=self.solver, rng=rng)


def _warn_if_hopeless(found: Synthesised, count: RowCount) -> None:
    """Warn if the noise of an average is above `HOPELESS`, at the largest number of rows that the estimate allows.

    A row count that noise made small thus causes no warning.
    """
    most = count.rows + CLEAR * count.stddev
    stddev = found.stddev * count.rows / most
    if stddev > HOPELESS:
        message = (
            f"each average is at most 1, and its noise has a stddev of {stddev:.2g}, so nothing can be learned: "
            "use more rows, fewer columns or a larger budget"
        )
        with suppress(UserWarning):  # a filter that makes errors of warnings must not take away what is paid for
            warnings.warn(message, stacklevel=3)
