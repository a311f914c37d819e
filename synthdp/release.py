"""`Release`: what every mechanism leaves behind, to be sampled, asked, saved and shown."""

from __future__ import annotations

from dataclasses import dataclass, field
from os import PathLike
from typing import Any, Generic, TypeVar

from synthdp.answers.answer import answer
from synthdp.answers.misfit_shares import MisfitShare, misfit_shares
from synthdp.errors import ParameterError
from synthdp.markup import render
from synthdp.measurements import Measurements
from synthdp.privacy.loss import PrivacyLoss
from synthdp.privacy.receipt import Receipt
from synthdp.sampling.synthetic_model import SyntheticModel

OutputT_co = TypeVar("OutputT_co", covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Release(Generic[OutputT_co]):
    """What the curator answered, and what was made of it: safe to publish as a whole.

    Parameters
    ----------
    mechanism
        Name of the mechanism.
    output
        What it made: a model to sample, a summary to ask.
    loss
        What it cost, fixed before any row was read.
    receipt
        The account, step by step.
    measurements
        The noisy answers it was made of.
    """

    mechanism: str
    output: OutputT_co
    loss: PrivacyLoss
    receipt: Receipt
    measurements: tuple[Measurements, ...] = field(default=(), repr=False)

    def __str__(self) -> str:
        return f"{self.mechanism}: {self.output!r}\n{self.receipt}"

    def _repr_html_(self) -> str:
        """Return the release for a notebook: what it is, and its receipt, folded."""
        receipt = render("receipt.html", total=self.receipt.total, adjacency=self.receipt.adjacency, text=self.receipt)
        return render("release.html", mechanism=self.mechanism, output=repr(self.output), receipt=receipt)

    @property
    def model(self) -> SyntheticModel:
        """What draws the rows: the output itself, or the model that it holds.

        Raises
        ------
        ParameterError
            If the output is no table.
        """
        found = self.output if isinstance(self.output, SyntheticModel) else getattr(self.output, "model", None)
        if not isinstance(found, SyntheticModel):
            raise ParameterError(f"a release by {self.mechanism} holds no synthetic table")
        return found

    @property
    def misfits(self) -> dict[str, MisfitShare | None]:
        """For each column of the table the noisy share of values that did not fit the schema.

        ``None`` where the mechanism does not measure it.

        Raises
        ------
        ParameterError
            If the output is no table.
        """
        return misfit_shares(self.model, self.measurements)

    def sample(self, rows: int | None = None, **options: Any) -> Any:
        """Draw synthetic rows from the output, as often as wanted.

        Raises
        ------
        ParameterError
            If the output is no table.
        """
        return self._method("sample")(rows, **options)

    def sample_to(self, path: str | PathLike[str], **options: Any) -> None:
        """Draw synthetic rows into a file, in bounded memory; see `SyntheticModel.sample_to`.

        Raises
        ------
        ParameterError
            If the output is no table.
        """
        self._method("sample_to")(path, **options)

    def answer(self, query: Any, **options: Any) -> Any:
        """Answer a query from the output: a summary by its own rules, a synthetic model as `synthdp.answers` does.

        Parameters
        ----------
        query
            For a synthetic model, what `marginal`, `count`, `share`, `sum`, `mean`, `variance`, `correlation`, `quantile` or
            `smooth` make; the answer is then a DataFrame with standard errors and 95 % intervals.

        Raises
        ------
        ParameterError
            If the output answers no such queries.
        """
        if isinstance(self.output, SyntheticModel):
            return answer(self.output, self.measurements, query)
        return self._method("answer")(query, **options)

    def _method(self, name: str) -> Any:
        method = getattr(self.output, name, None)
        if method is None:
            raise ParameterError(f"a release by {self.mechanism} has no {name}()")
        return method
