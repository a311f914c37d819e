"""`Release`: the result of every mechanism, to be sampled, asked, saved and shown."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from synthdp.answers.misfit_shares import MisfitShare, misfit_shares
from synthdp.checks import whole
from synthdp.errors import InternalError, ParameterError, SalvageWarning, SynthDPError
from synthdp.markup import render
from synthdp.measurements import Measurements
from synthdp.privacy.loss import PrivacyLoss
from synthdp.privacy.receipt import Receipt
from synthdp.randomness import RandomState, generator
from synthdp.sampling.single_columns import model_of_single_columns
from synthdp.sampling.synthetic_model import SyntheticModel
from synthdp.tables.source import RowSink

if TYPE_CHECKING:
    from synthdp.answers.samples import Analysis
    from synthdp.pictures.picture import Picture

OutputT_co = TypeVar("OutputT_co", covariant=True)


def _warn_of_salvage(note: str) -> None:
    """Warn that a release is simpler than intended; never raise, even if warnings are errors: it is paid for."""
    with suppress(SalvageWarning):  # a filter that makes errors of warnings must not take away what is left
        warnings.warn(note, SalvageWarning, stacklevel=3)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Release(Generic[OutputT_co]):
    """The result of a mechanism, safe to publish as a whole: its output, noisy measurements, loss and receipt.

    Parameters
    ----------
    mechanism
        Name of the mechanism.
    output
        A model to sample, or a summary to ask.
    loss
        Privacy loss, fixed before any row was read.
    receipt
        The steps that read private rows, with their costs.
    measurements
        The noisy answers that the output was made from.
    """

    mechanism: str
    output: OutputT_co
    loss: PrivacyLoss
    receipt: Receipt
    measurements: tuple[Measurements, ...] = field(default=(), repr=False)

    def __str__(self) -> str:
        return f"{self.mechanism}: {self.output!r}\n{self.receipt}"

    def _repr_html_(self) -> str:
        """Return the release as HTML for a notebook: mechanism, output, and the collapsed receipt."""
        receipt = render("receipt.html", total=self.receipt.total, adjacency=self.receipt.adjacency, text=self.receipt)
        return render("release.html", mechanism=self.mechanism, output=repr(self.output), receipt=receipt)

    @property
    def model(self) -> SyntheticModel:
        """The model that draws synthetic rows: the output itself, or the model that it holds.

        Raises
        ------
        ParameterError
            If the output is not a table.
        """
        found = self.output if isinstance(self.output, SyntheticModel) else getattr(self.output, "model", None)
        if not isinstance(found, SyntheticModel):
            raise ParameterError(
                f"a release by {self.mechanism} holds no synthetic table: query it in Python with its method answer()"
            )
        return found

    @property
    def misfits(self) -> dict[str, MisfitShare | None]:
        """The noisy fraction of out-of-domain values, by column of the table.

        ``None`` stands for a column without a measured fraction.

        Raises
        ------
        ParameterError
            If the output is not a table.
        """
        return misfit_shares(self.model, self.measurements)

    def salvaged(self, what: str, error: Exception | None) -> Release[OutputT_co]:
        """Return the release with a note on its receipt that something failed, and warn; unchanged without an error.

        Parameters
        ----------
        what
            What failed, as the beginning of a sentence.
        error
            The error; the note has its type only, since messages of other packages may quote private values.
        """
        if error is None:
            return self
        note = (
            f"SALVAGED: {what} failed ({type(error).__name__}), so the release was made without this step, "
            "from the noisy answers alone: it keeps its privacy guarantee, but may be less accurate"
        )
        _warn_of_salvage(note)
        return replace(self, receipt=self.receipt.noted(note))

    def simplest(self) -> Release[Any]:
        """Return this release with an output of independent columns, which can be sampled if the real model fails.

        Raises
        ------
        ParameterError
            If the output is not a table.
        """
        from synthdp.sampling.database_model import DatabaseModel

        if isinstance(self.output, DatabaseModel):
            laws = self.output.histories
            alone = {key: replace(law, factors=()) for key, law in laws.conditionals.items()}
            return replace(self, output=replace(self.output, histories=replace(laws, conditionals=alone)))
        model, like = self.model, cast("Release[Any]", self)
        made, notes = model_of_single_columns(model.schema, self.measurements, rows=model.total)
        return replace(like, output=replace(made, format=model.format), receipt=self.receipt.noted(*notes))

    def sample(self, rows: int | None = None, **options: Any) -> Any:
        """Draw synthetic rows from the output, any number of times.

        Parameters
        ----------
        rows
            Number of rows; default: the noisy estimate of the private table's.
        options
            Options of the output's own method; see `SyntheticModel.sample`.  ``given`` may also be a condition or a
            list of conditions, as in `answer`, such as ``"age > 30 and sex == 'F'"``; each part between ``and`` is
            about one column.

        Warns
        -----
        SalvageWarning
            If drawing fails, and the rows come from independent columns instead.

        Raises
        ------
        ParameterError
            If the output is not a table.
        """
        return self._drawn("sample", rows, **options)

    def samples(self, m: int = 20, *, rows: int | None = None, random_state: RandomState = None) -> list[Any]:
        """Draw several synthetic tables whose spread is the uncertainty about the private rows, for `combine`.

        Tables drawn by `sample` come from one fitted model and do not show its error.  Each of these tables comes from
        a model of its own, by the parametric bootstrap that also gives `answer` its errors.  The models differ by
        noise, by the fit's shrinkage and by relations that were not measured.  Analyse each table, and combine the
        results with `combine`.  A single one of these tables is worse than a table drawn by `sample`.

        The rule holds for estimates that do not depend on the number of rows, such as means, shares and coefficients:
        all tables have as many rows.  It is approximate, as the bootstrap is.

        Parameters
        ----------
        m
            Number of tables, >= 2; a standard error from 20 tables has a relative error of about 16 %.
        rows
            Rows of each, drawn independently; default: the noisy estimate of the private table's.  More make intervals
            shorter.
        random_state
            Seed of the sampling.  The seed never reaches noise.

        Raises
        ------
        ParameterError
            If ``m`` is below 2 or ``rows`` below 1, or the release has no synthetic table or keeps no noisy tables.
        """
        from synthdp.answers.samples import replicates_of

        wanted, rng = whole("rows", self.model.rows if rows is None else rows, least=1), generator(random_state)
        replicates = replicates_of(self.model, self.measurements, m, random_state=rng)
        return [one.likely.sample(wanted, random_state=rng, method="multinomial") for one in replicates]

    def analyse(
        self,
        function: Callable[[Any], Any],
        m: int = 20,
        *,
        population: bool = True,
        rows: int | None = None,
        level: float = 0.95,
        random_state: RandomState = None,
    ) -> Analysis:
        """Run an analysis on several synthetic tables and combine the results, with intervals that include the noise.

        Standard errors computed on one synthetic table are too small, because they treat its rows as real.  Here the
        function runs on each of the m tables of `samples`, whose spread is the error.  It also runs on a table of the
        released model and on m tables of releases made of that table.  These show how far noise and fit shift an
        estimate; the result is corrected by this shift.  No privacy is spent; the function is called 2 m + 1 times.

        Parameters
        ----------
        function
            Function of one table.  The function returns a number, a dict or pandas Series of numbers, a pair
            (estimates, variances), a result of statsmodels, or a fitted linear model of scikit-learn.
        m
            Number of tables, >= 2; a standard error from 20 tables has a relative error of about 16 %.
        population
            Whether the intervals hold for the population that the private rows are a simple random sample from, or for
            the private rows alone.
        rows
            Rows of each table; default: the noisy estimate of the private table's.  With another number the function
            must return variances.
        level
            Confidence level of the intervals, 0 < level < 1.
        random_state
            Seed of the sampling.  The seed never reaches noise.

        Returns
        -------
        An `Analysis`: its ``table`` is a DataFrame of estimates, standard errors, p-values and intervals; ``covers``
        is a sentence on the population that the intervals hold for.

        Raises
        ------
        ParameterError
            As for `samples`, or if the function returns anything else.

        Examples
        --------
        >>> import pandas as pd
        >>> import synthdp as sd
        >>> ages = pd.DataFrame({"age": [20, 30, 40, 50] * 500})
        >>> release = sd.SyntheticRelease(schema=sd.Schema({"age": sd.Integer(0, 99)})).fit(ages).release_
        >>> found = release.analyse(lambda table: {"mean age": table["age"].mean()})
        >>> list(found.table.columns)
        ['estimate', 'standard_error', 't', 'p_value', 'lower', 'upper']
        """
        from synthdp.answers.samples import analysed, replicates_of

        wanted, rng = whole("rows", self.model.rows if rows is None else rows, least=1), generator(random_state)
        likely, fitted = [], []
        for one in replicates_of(self.model, self.measurements, m, random_state=rng):
            likely.append(one.likely.sample(wanted, random_state=rng, method="multinomial"))
            fitted.append(one.fitted.sample(wanted, random_state=rng, method="multinomial"))
        return analysed(
            function, likely=likely, fitted=fitted, released=self.model.sample(wanted, random_state=rng), rows=wanted,
            n=float(self.model.rows), population=population, level=level,
        )  # fmt: skip

    def sample_to(self, path: str | PathLike[str] | RowSink, **options: Any) -> None:
        """Draw synthetic rows into a file, in bounded memory; see `SyntheticModel.sample_to`.

        Raises
        ------
        ParameterError
            If the output is not a table.
        """
        self._drawn("sample_to", path, **options)

    def answer(self, query: Any, **options: Any) -> Any:
        """Answer a question, with standard errors and 95 % intervals, in the same form for every mechanism.

        Parameters
        ----------
        query
            A question made by `marginal`, `count`, `share`, `sum`, `mean`, `variance`, `correlation`, `regression`,
            `quantile` or `smooth`.  Some mechanisms' releases also answer their own questions, such as conjunctions,
            sparse queries, functions of points and families of linear queries.
        options
            For several tables: ``of``, the table whose rows count; see
            `synthdp.answers.related.database_answer.answer`.  Other options are passed to the output's own method
            ``answer``.

        Returns
        -------
        A pandas DataFrame with a row for each number: its labels, ``estimate``, ``standard_error``, ``lower``,
        ``upper``, ``basis`` and ``bias``.  The basis states how the number was computed, and whether its error is
        unknown.  The bias is a bound on error from other causes than noise, where there is one.  A single answer
        converts to a number, ``float(answer)``.  ``output.answer`` returns plain numbers for a mechanism's own
        questions.

        Raises
        ------
        ParameterError
            If the output answers no such question; the message lists the questions that it answers.
        """
        if isinstance(self.output, SyntheticModel):
            from synthdp.answers.answer import answer

            return answer(self.output, self.measurements, query, **options)
        from synthdp.sampling.database_model import DatabaseModel

        if isinstance(self.output, DatabaseModel):
            from synthdp.answers.related.database_answer import answer as answer_database

            return answer_database(self.output, self.measurements, query, **options)
        if not hasattr(self.output, "answered"):  # a summary of the user's own answers as it does
            return self._method("answer")(query, **options)
        return cast("Any", self.output).answered(query, self.measurements, **options).to_frame()

    def save(self, path: str | PathLike[str]) -> None:
        """Write the release to a folder, whole or not at all; `synthdp.load` reads it, in any later version.

        Parameters
        ----------
        path
            A new folder, or one that holds a release already.

        Raises
        ------
        ParameterError
            If something in the release is of a class that has no file form; see `synthdp.saved_as`.
        DataError
            If the folder cannot be written, or holds something else.
        """
        from synthdp.release_files import write

        write(self, path)

    def plot(self, column: str | None = None, *, by: str | None = None) -> Picture:
        """Return a picture of a column, or of all, as in the report; a notebook shows it, and ``save`` writes it.

        Its ``figure`` makes a matplotlib figure.

        Parameters
        ----------
        column
            Name of the column; default: all columns.
        by
            Another column: the picture then shows the shares of ``column`` within each of its groups.

        Raises
        ------
        ParameterError
            If the output is no table, or a column is an identifier or does not exist.
        """
        from synthdp.pictures.picture import picture_of

        return picture_of(self.model, self.measurements, column, by)

    def _drawn(self, name: str, *given: Any, **options: Any) -> Any:
        """Call a sampling method of the output; if it fails unexpectedly, call it on independent columns and warn."""
        if options.get("given") is not None and self._method(name):
            options["given"] = self._allowed(options["given"])
        try:
            return self._method(name)(*given, **options)
        except Exception as error:
            if isinstance(error, SynthDPError) and not isinstance(error, InternalError):
                raise
            simplest = self.simplest().salvaged("drawing rows from the model", error)
            try:
                return getattr(simplest.output, name)(*given, **options)
            except MemoryError:
                if name != "sample":
                    raise
                raise ParameterError(
                    "memory does not hold that many rows: ask for fewer rows, or write them to a file with sample_to"
                ) from None

    def _allowed(self, given: Any) -> Mapping[str, Any]:
        """Return the values that drawn rows must have, by column, from a mapping or from texts such as "age > 30"."""
        from synthdp.answers.expressions import allowed_by

        if isinstance(given, Mapping):
            return given
        texts = [given] if isinstance(given, str) else given
        if not isinstance(texts, (list, tuple)) or not all(isinstance(text, str) for text in texts):
            raise ParameterError(
                "given must map columns to values, or be a condition such as \"age > 30 and sex == 'F'\""
            )
        schema: Any = getattr(self.output, "schema", None) or self.model.schema
        return allowed_by(texts, schema.with_columns_below() if hasattr(schema, "root") else schema)

    def _method(self, name: str) -> Any:
        """Return a method of the output; raise ParameterError if the output has none of this name."""
        method = getattr(self.output, name, None)
        if method is None:
            raise ParameterError(
                f"a release by {self.mechanism} has no method {name}(): help(release.output) lists the methods that it has"
            )
        return method


def save(release: Release[Any], path: str | PathLike[str]) -> None:
    """Write a release to a folder; see `Release.save`."""
    if not isinstance(release, Release):
        raise ParameterError(f"release must be a Release, not {type(release).__name__}")
    release.save(path)


def load(path: str | PathLike[str]) -> Release[Any]:
    """Read a release from a folder, written by this version or any earlier one.

    Raises
    ------
    FormatError
        If the folder is not a release, has another version, or was changed.  Also if it holds an object of a class that
        a module outside of synthdp defines, and that module was not imported.

    Examples
    --------
    >>> import tempfile
    >>> import pandas as pd
    >>> import synthdp as sd
    >>> release = sd.SyntheticRelease(schema=sd.Schema({"member": sd.Boolean()})).fit(pd.DataFrame({"member": [True] * 500}))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     release.save(f"{folder}/members.release")
    ...     again = sd.load(f"{folder}/members.release")
    >>> again.sample(10, random_state=0).equals(release.sample(10, random_state=0))
    True
    """
    from synthdp.release_files import read

    return Release(**read(path))
