"""A mechanism added from outside of the package: shares of yes under a Beta prior, and independent rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from synthdp.curator import Curator
from synthdp.distribution.components import Product
from synthdp.domain.domain import domain_of
from synthdp.domain.refinement import Refinement
from synthdp.errors import ParameterError
from synthdp.privacy.loss import Remaining, Spend
from synthdp.queries.marginals import one_ways
from synthdp.randomness import RandomState
from synthdp.release import Release
from synthdp.sampling.synthetic_model import SyntheticModel
from synthdp.schema.columns import Boolean
from synthdp.schema.schema import Schema
from synthdp.tables.format import TableFormat


@dataclass(frozen=True, slots=True)
class BetaShares:
    """Release the share of yes in every column of a table of Booleans, shrunk towards a prior.

    Costs ``spend``, for the curator's neighbours.

    Parameters
    ----------
    yes, no
        The Beta prior: rows of either kind that were "seen" before the table was.
    spend
        What it may cost.

    Raises
    ------
    ParameterError
        If the prior is not positive.
    """

    yes: float = 1.0
    no: float = 1.0
    spend: Spend = Remaining()

    def __post_init__(self) -> None:
        if not (self.yes > 0 and self.no > 0):
            raise ParameterError(f"yes and no ({self.yes}, {self.no}) must be positive")

    def output_schema(self, schema: Schema) -> Schema:
        """Return the schema of the synthetic table: all columns come out.  Costs nothing: public.

        Raises
        ------
        ParameterError
            If a column is no Boolean, or may be missing.
        """
        if not all(isinstance(column, Boolean) and not column.nullable for column in schema.values()):
            raise ParameterError("all columns must be Booleans that are never missing")
        return schema

    def release(self, curator: Curator, *, random_state: RandomState = None) -> Release[SyntheticModel]:
        """Measure all one-way tables and make rows of independent columns.

        Costs ``spend``, for the curator's neighbours.
        """
        schema = self.output_schema(curator.schema)
        del random_state  # nothing but noise is drawn
        loss = curator.cost(self.spend)
        domain = domain_of(schema)
        measured = curator.open_account(loss).measure(one_ways(domain), step="one-way marginals")
        counts = np.maximum(measured.answers.reshape(len(domain), -1)[:, :2], 0.0)  # the third cell is never released
        posterior = counts + np.array([self.no, self.yes])  # False is the first level
        margins = [np.pad(row, (0, size - 2)) for row, size in zip(posterior, domain.shape, strict=True)]
        model = SyntheticModel(
            schema=schema,
            domain=domain,
            distribution=Product(shape=domain.shape, margins=margins),
            refinements=tuple(Refinement.trivial(axis) for axis in domain.axes),
            total=float(counts.sum(axis=1).mean()),
            format=TableFormat.default(schema),
        )
        return Release(
            mechanism="BetaShares", output=model, loss=loss, receipt=curator.receipt(), measurements=(measured,)
        )
