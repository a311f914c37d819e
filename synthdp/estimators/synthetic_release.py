"""`SyntheticRelease`: the scikit-learn interface to schema, curator, mechanism, model and storage.

The module does no computations.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from synthdp.answers.misfit_shares import MisfitShare, unproven_notes, unproven_points
from synthdp.checks import check_one_of
from synthdp.curator import Curator, Ledger
from synthdp.domain.fresh_keys import check_enough_keys
from synthdp.errors import DataError, ParameterError, UnprotectedLabelsWarning
from synthdp.estimators.estimator_input import input_source, is_table, join_label, number_of_labels, split_label
from synthdp.estimators.findings import (
    addresses,
    check_discoverable,
    check_noise,
    checked_loss,
    discovery_notes,
    ignored_notes,
    learned_notes,
    misfit_notes,
    refuse_own_tables,
    refuse_undiscovered,
    say_what_is_left_out,
    tells_of_budget,
    warn_of_misfits,
    warn_of_undiscovered,
)
from synthdp.mechanisms.mechanism import HasPrivacyCost, TableMechanism
from synthdp.mechanisms.named import mechanism_given, table_mechanism_named
from synthdp.mechanisms.preflight import (
    account_of,
    after_the_spend,
    discovery_ends,
    discovery_part,
    first_that_works,
    release_of,
    say,
    takes,
)
from synthdp.mechanisms.survey_weights import check_weights, measure_weights, weight_notes, weights_of, with_weight
from synthdp.privacy.loss import PrivacyLoss
from synthdp.progress import Progress, ProgressCallback, silent
from synthdp.randomness import RandomState, generator
from synthdp.release import Release
from synthdp.sampling.synthetic_model import SyntheticModel
from synthdp.schema.columns import Categorical, Column
from synthdp.schema.schema import DraftedSchema, Reviewable, Schema, schema_given
from synthdp.tables.dataframe import FrameSource
from synthdp.tables.format import TableFormat
from synthdp.tables.resolve import infer_schema, without_nulls
from synthdp.tables.source import Source

if TYPE_CHECKING:  # pages, pictures, plans and files are loaded by the methods that make them
    from synthdp.answers.samples import Analysis
    from synthdp.curator import Discovered
    from synthdp.mechanisms.public_knowledge import PublicKnowledge
    from synthdp.pictures.picture import Picture
    from synthdp.planning import Plan, Plans

ASSUMED_ROWS = 10_000
"""Number of rows that a plan assumes if the user gives none.  More would predict smaller errors, which few tables would
reach.  A convention."""

REFUSE = "refuse"
"""Value of ``undiscovered`` that refuses a release if noise hides too much of the table."""
UNDISCOVERED = ("leave_out", REFUSE)
"""Allowed settings for columns whose values are hidden by noise: leave the column out, or refuse the release."""

PAIRED = (
    "a y was passed: the synthetic table has as many rows as it, so the number of rows is public and the promise is for "
    "replacing one row; the labels in y are real and no part of the release"
)
"""Receipt note of a release to which labels were passed."""

UNPAIRED = (
    "fit_transform() returns synthetic rows but leaves y unchanged, so that a pipeline trains on REAL, unprotected labels "
    "of other rows: use TrainOnSynthetic, fit_resample() or imbalanced-learn's pipeline, which release rows and labels "
    "together"
)
"""Warning text for labels that are passed to ``fit_transform``."""

RESTATED = ". The length of y also makes the number of rows public, so the guarantee is for neighbors='replace_one'"
"""Addition to the text `UNPAIRED` if the labels make the number of rows public."""

UNCOUNTABLE = (
    "passing y would make the number of rows public, which must stay private with a privacy_unit: leave y out, give "
    "n_rows, or release rows and labels together with fit_resample() or TrainOnSynthetic"
)
"""Error text for labels that would make the number of rows public although persons are protected."""


def _not_asked_by_imblearn(_: object) -> bool:
    """Return False if the caller is imbalanced-learn, so that its pipelines do not see the transformer's methods.

    A step of an imbalanced-learn pipeline must either transform or resample, not both.
    """
    frame = sys._getframe(1)  # noqa: SLF001 - hasattr() has no other way to know its caller
    for _depth in range(6):
        if frame.f_globals.get("__name__", "").startswith("imblearn."):
            return False
        if frame.f_back is None:
            break
        frame = frame.f_back
    return True


class SyntheticRelease(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Turn a private table into a synthetic table with a differential privacy guarantee.

    Parameters
    ----------
    schema
        Public knowledge of the columns: a `Schema`, a dict of columns by name, or the path of a schema file.  Without a
        schema, column names and types are taken as public; bounds and levels are discovered under ``domain_budget``.
    epsilon, delta
        The privacy loss of everything that ``fit`` releases; ``delta=0`` is pure epsilon.
    neighbors
        ``"add_remove"``: the guarantee hides whether a row is present, and so the number of rows.  ``"replace_one"``:
        it hides the values of a row; the number of rows is public.
    n_rows
        Number of rows of ``fit_transform``'s result; default: the noisy number of private rows.
    workload
        Marginals or sets of column names that should be accurate, or a mapping from these to weights; default: all
        alike.  Pairs outside of the workload keep a fifth of the budget for pairs, if the mechanism is
        `AdaptiveMarginals`.
    target
        Name of a column whose relations to other columns should be accurate.
    mechanism
        ``"auto"`` (see `Automatic`), ``"adaptive_marginals"``, ``"smooth_synthesis"``, ``"l1_fit"``, ``"mwem"``,
        ``"fourier_marginals"``, or a mechanism object that yields a table.  Settings that the mechanism does not
        support are refused before any spend.
    mechanism_options
        More keyword arguments of the named mechanism (`SmoothSynthesis`, `L1Fit`, ...), by name.
    solver
        ``"auto"``, ``"lp"`` or ``"mw"`` (explicit support), ``"maxent"`` (junction tree).
    bins
        Equal bins of a numeric column before adaptive marginals refine it, at least 2.
    domain_budget
        Share of the budget for the discovery of open columns.  With Gaussian DP, as by default, it is a share of mu
        squared, and a tenth of delta pays for the thresholds of levels; otherwise it is a share of epsilon and delta.
        If noise hides the domain of a column, the column is left out with a warning.  Columns that a workload, the
        target or the order of an array needs are kept with placeholder values.  So are all columns if none would be
        left.
    undiscovered
        Action if noise hides the domain of a column, or most values of the table.  ``"leave_out"`` leaves the column
        out, with a warning; ``"refuse"`` raises `DiscoveryError`.  To refuse, the number of rows is estimated first, so
        that a table too small for its budget costs little.  The ledger gets back the unspent budget.
    privacy_unit, max_rows_per_unit
        Column that names the persons to protect, and the most rows of each person that are used; default: every row is
        a unit.  Ids are equal if texts are written alike, as in a CSV file, or if numbers and times are equal.  A
        column that the schema does not name is not released.  In the schema it must be an `Identifier`, released as
        fresh labels.  The default number of synthetic rows estimates the number of rows used.
    weight, weight_bounds
        Name of a survey weight column, the number of population units that a row represents, and its public bounds
        ``(lower, upper)``, above 0.  A schema can declare a `Weight` column instead.  Weights of synthetic rows add up
        to the estimated population; `count`, `share`, `sum` and `mean` take the column as ``weight=``.
    places
        Name of a column of places, declared as ``Categorical(levels, groups=[...])``.  Its levels are counted with
        every other column at each step of the hierarchy.  Counts of synthetic rows are integers that add up at every
        step.
    public
        A table of unprotected rows, such as last year's file or a published sample: a dataframe, a source or a path,
        with some or all of the columns.  The table is the prior of the release, to the extent that noisy answers agree
        with it.  It is not read through the curator, and the receipt names it.
    public_weight
        Largest weight of a row of ``public``, relative to a private row, above 0 and at most 1.
    public_totals
        Exact public numbers of rows, by column or tuple of columns, as ``{("region",): series}``.  Each is a Series or
        a mapping from values, or tuples of values, to rows; an absent value has 0 rows.  Synthetic rows match these
        numbers.
    ledger, dataset
        Path of a ledger, or a `Ledger`, that records the spend before data is read, and the data's name in it.
    random_state
        Seed of the sampling; privacy noise never uses it.
    on_progress
        Function that is called with a `Progress` at each stage.

    Attributes
    ----------
    release_ : Release
        The release: model, loss, receipt and measurements.
    schema_ : Schema
        The schema with the discovered bounds and levels.
    receipt_ : Receipt
        The steps of the release and their privacy costs.
    misfits_ : dict of MisfitShare or None
        By column, the noisy fraction of out-of-domain values and its standard error; ``None`` if the mechanism does not
        measure it.  The model excludes such values, but uses the other columns of their rows.
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import synthdp as sd
    >>> table = pd.DataFrame({"age": np.arange(1000) % 80, "member": np.arange(1000) % 3 == 0})
    >>> schema = sd.Schema({"age": sd.Integer(0, 100), "member": sd.Boolean()})
    >>> release = sd.SyntheticRelease(schema=schema, epsilon=1.0, n_rows=500)
    >>> synthetic = release.fit_transform(table)
    >>> synthetic.shape, list(synthetic.dtypes) == list(table.dtypes)
    ((500, 2), True)
    >>> print(release.receipt_.total)
    ε = 1, δ = 1e-09
    >>> bool(release.sample(100, given={"member": True})["member"].all())
    True
    """

    def __init__(
        self,
        *,
        schema: Schema | Reviewable | Mapping[str, Any] | str | PathLike[str] | None = None,
        epsilon: float = 1.0,
        delta: float = 1e-9,
        neighbors: str = "add_remove",
        n_rows: int | None = None,
        workload: Any = None,
        target: str | None = None,
        mechanism: Any = "auto",
        mechanism_options: Mapping[str, Any] | None = None,
        solver: str = "auto",
        bins: int = 32,
        domain_budget: float = 0.3,
        undiscovered: str = "leave_out",
        privacy_unit: str | None = None,
        max_rows_per_unit: int = 1,
        weight: str | None = None,
        weight_bounds: tuple[float, float] | None = None,
        places: str | None = None,
        public: Any = None,
        public_weight: float = 1.0,
        public_totals: Mapping[Any, Any] | None = None,
        ledger: str | PathLike[str] | Ledger | None = None,
        dataset: str | None = None,
        random_state: RandomState = None,
        on_progress: ProgressCallback | None = None,
    ) -> None:
        self.schema = schema
        self.epsilon = epsilon
        self.delta = delta
        self.neighbors = neighbors
        self.n_rows = n_rows
        self.workload = workload
        self.target = target
        self.mechanism = mechanism
        self.mechanism_options = mechanism_options
        self.solver = solver
        self.bins = bins
        self.domain_budget = domain_budget
        self.undiscovered = undiscovered
        self.privacy_unit = privacy_unit
        self.max_rows_per_unit = max_rows_per_unit
        self.weight = weight
        self.weight_bounds = weight_bounds
        self.places = places
        self.public = public
        self.public_weight = public_weight
        self.public_totals = public_totals
        self.ledger = ledger
        self.dataset = dataset
        self.random_state = random_state
        self.on_progress = on_progress

    @tells_of_budget
    def fit(self, X: Any, y: Any = None) -> SyntheticRelease:  # noqa: ARG002
        """Measure ``X`` through a curator, fit the model and return the estimator; no private row is stored.

        Costs ``epsilon`` and ``delta``.

        Parameters
        ----------
        X
            A dataframe, or a source of rows.
        y
            Ignored; put the label in the table.

        Raises
        ------
        DataError, ParameterError, SchemaError
            If a setting, the schema or the table is unsuitable; nothing is spent then.
        BudgetExceededError, LedgerError
            If the ledger does not cover the spend; no row is read then.
        DiscoveryError
            With ``undiscovered="refuse"``, if noise hides too much; the message says what was spent.
        """
        return self._fit(X, schema=self._declared(), neighbors=self.neighbors)

    def _fit(
        self,
        X: Any,
        *,
        schema: Schema | None,
        neighbors: str,
        label: str | None = None,
        notes: tuple[str, ...] = (),
    ) -> SyntheticRelease:
        """Fit with a given schema and neighbour relation, and return the estimator.

        ``label`` names a column that must be released.

        ``notes`` are added to the receipt.
        """
        loss, mechanism, tell = self._check_settings(), self._mechanism(), self.on_progress or silent
        tell(Progress(stage="reading", done=0, total=1))
        self._array = not is_table(X)
        source = input_source(self, X, reset=True)
        self._read = addresses([source])
        schema = schema if schema is not None else infer_schema(source, without=self.privacy_unit)
        schema = with_weight(schema, self.weight, self.weight_bounds)
        check_weights(mechanism, schema)
        if self.public is not None or self.public_totals is not None or self.public_weight != 1:
            mechanism = self._mechanism(public=self._public(X, schema))
        output = mechanism.output_schema(schema)
        format = TableFormat.of(source, output)  # noqa: A001
        schema = format.without_impossible_nulls(schema)
        check_discoverable(schema, loss)
        check_noise(loss, self.max_rows_per_unit)
        needed = {label, self.target} & {*schema.outputs}
        say_what_is_left_out(mechanism, [name for name in schema.outputs if name not in output.outputs], label=label)
        curator = Curator(
            source,
            schema=schema,
            budget=loss,
            neighbors=neighbors,
            privacy_unit=self.privacy_unit,
            max_rows_per_unit=self.max_rows_per_unit,
            ledger=self.ledger,
            dataset=self.dataset,
        )
        extra = curator.extra_columns
        with curator:
            refuses = self.undiscovered == REFUSE
            ends = discovery_ends(self.domain_budget) if refuses and schema.undeclared else ()
            whole = account_of(curator, mechanism, schema, ends=ends)
            found: Discovered | None = None

            def asked() -> Release[Any]:
                nonlocal found
                if (schema.undeclared or weights_of(schema)) and isinstance(mechanism, HasPrivacyCost):
                    mechanism.prepare(whole)
                if schema.undeclared:
                    tell(Progress(stage="discovery", done=0, total=1))
                    found = self._discovered(whole, mechanism, needed, careful=refuses)
                    if refuses:
                        refuse_undiscovered(found, whole)
                weighed = measure_weights(whole)
                made = mechanism.release(whole, random_state=self.random_state)
                return replace(made, measurements=(*made.measurements, *weighed))

            self.release_: Release[Any] = release_of(mechanism, whole, asked)  # kept before anything else is done
            release, self.receipt_ = self.release_, self.release_.receipt

        def finished() -> tuple[Release[SyntheticModel], Mapping[str, MisfitShare | None]]:
            misfits = release.misfits
            unknown = () if found is None else discovery_notes(found)
            unproven = unproven_points(release.model, release.measurements)
            hidden = unproven_notes(unproven, release.model.schema)
            said = (*ignored_notes(extra, self.privacy_unit), *unknown, *misfit_notes(misfits), *hidden, *notes)
            said = (*said, *learned_notes(release), *weight_notes(release.model.schema))
            model = release.model
            if unproven:
                from synthdp.sampling.restriction import without_points

                model = without_points(model, list(unproven))
            return _suited(release, model, format, loss, said), misfits

        def unfinished() -> tuple[Release[SyntheticModel], Mapping[str, MisfitShare | None]]:
            return _suited(release, release.model, format, loss, notes), dict.fromkeys(release.model.schema)

        (made, misfits), failed = first_that_works(finished, unfinished)
        self.release_ = made.salvaged("a look at values that do not fit", failed)
        self.schema_ = self.release_.output.schema
        self._known = None if self.schema is None else schema
        self.receipt_, self.misfits_ = self.release_.receipt, misfits

        def undiscovered() -> None:
            if found is not None:
                warn_of_undiscovered(found, stacklevel=6)

        say(undiscovered, lambda: warn_of_misfits(misfits, stacklevel=6))
        return self

    def _discovered(
        self, account: Curator, mechanism: TableMechanism, needed: set[str | None], *, careful: bool
    ) -> Discovered:
        """Return the discovered bounds and levels of open columns.

        Columns in ``needed`` are kept even if nothing was found.  If ``careful``, the number of rows is estimated
        first, and discovery ends if noise would hide most values.

        If discovery fails after an answer was paid for, the release continues as if nothing was found.
        """

        def suits(rest: Schema) -> bool:
            return not self._array and needed <= {*rest.outputs} and takes(mechanism, rest)

        return after_the_spend(
            account,
            lambda: account.discover(
                spend=discovery_part(account.budget, self.domain_budget), takes=suits, careful=careful
            ),
            lambda error: account.skip_discovery(
                f"SALVAGED: the discovery failed ({type(error).__name__}); the open columns are as if nothing was found",
                takes=suits,
            ),
        )

    @tells_of_budget
    def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> Any:  # noqa: ARG002
        """Fit and return a synthetic table with the columns, order, types and library of ``X``.

        Standard errors and tests computed on this one table are too small, because they ignore the noise; use
        `analyse`.

        Parameters
        ----------
        X
            A dataframe or an array.
        y
            Labels, as scikit-learn's pipelines pass them; they stay unchanged and unprotected, with a warning.  The
            result has as many rows as ``y``, which makes the number of rows public.  So the release uses
            ``neighbors="replace_one"``, at the same epsilon and delta.  With ``n_rows``, the result has that number of
            rows, and ``neighbors`` applies as set.

        Warns
        -----
        UnprotectedLabelsWarning
            If ``y`` is given: to release labels with their rows, put them in the table, or use `TrainOnSynthetic` or
            ``fit_resample``.

        Raises
        ------
        ParameterError
            If ``y`` is given, ``n_rows`` is not, and there is a ``privacy_unit``; nothing is spent then.
        DataError
            If ``y`` does not hold a label for every row; nothing is spent then.
        """
        if y is None:
            return self.fit(X).sample(self.n_rows)
        if self.n_rows is None and self.privacy_unit is not None:
            raise ParameterError(UNCOUNTABLE)
        warnings.warn(UNPAIRED + RESTATED * (self.n_rows is None), UnprotectedLabelsWarning, stacklevel=4)
        if self.n_rows is not None:
            return self.fit(X).sample(self.n_rows)
        rows = number_of_labels(X, y)
        schema = self._declared()
        if schema is not None:
            check_enough_keys(schema, rows)
        return self._fit(X, schema=schema, neighbors="replace_one", notes=(PAIRED,)).sample(rows)

    @tells_of_budget
    def fit_resample(
        self, X: Any, y: Any, *, target: str | None = None, label: Column | None = None, nullable: bool = True
    ) -> tuple[Any, Any]:
        """Release rows and their labels together, and return synthetic rows and labels.

        Pipelines of imbalanced-learn call this method and train later steps on the result.

        Parameters
        ----------
        X
            A dataframe or an array.
        y
            A label for every row.
        target
            The name of the label column, which the schema may declare; default: the name of ``y``, else ``"target"``.
        label
            Declaration of the label column if the schema has none; default: classes, discovered under
            ``domain_budget``.
        nullable
            Whether synthetic values may be missing, if there is no schema; False is for models without missing values.

        Returns
        -------
        Synthetic rows like ``X``, and labels like ``y``.
        """
        schema = self._declared()
        joined, name = join_label(X, y, name=target, typed=schema is not None)
        if schema is None:
            schema = infer_schema(FrameSource(joined), without=self.privacy_unit).replace(
                {name: label or Categorical()}
            )
            schema = schema if nullable else without_nulls(schema)
        elif name not in schema.outputs:
            schema = schema.extended({name: label or Categorical()})
        synthetic = self._fit(joined, schema=schema, neighbors=self.neighbors, label=name).sample(self.n_rows)
        self._array = not is_table(X)
        return split_label(synthetic, name, like=(X, y))

    def transform(self, X: Any) -> Any:
        """Return the real rows of ``X`` brought to the declared schema: numbers clipped, unknown values made missing.

        The result is not private.  It serves to apply a pipeline whose later steps were trained on synthetic rows.
        Discovered bounds and levels are estimates and change no value.
        """
        check_is_fitted(self)
        source = input_source(self, X, reset=False)
        missing = [name for name in self.schema_ if name not in source.names]
        if missing:
            raise DataError(
                f"column {missing[0]!r} is missing from the table: add it; the schema has: {', '.join(self.schema_)}"
            )
        blocks = list(source.blocks(self.schema_))
        if len(blocks) != 1:
            raise DataError(
                "transform() needs a dataframe in memory: read the file or the query result into a dataframe first"
            )
        from synthdp.domain.encoder import conform

        raw = {
            name: conform(self._known[name], blocks[0][name]) if self._known is not None else blocks[0][name]
            for name in self.schema_
        }
        known = infer_schema(source) if self._known is None else self._known
        return self._outer(TableFormat.of(source, known.part(self.schema_)).build(self.schema_, raw), X)

    def get_feature_names_out(self, input_features: Any = None) -> Any:  # noqa: ARG002
        """Return the names of the synthetic columns."""
        check_is_fitted(self)
        return np.array([*self.schema_.outputs], dtype=object)

    def sample(
        self,
        rows: int | None = None,
        *,
        random_state: RandomState = None,
        given: Mapping[str, Any] | str | Sequence[str] | None = None,
        method: str = "systematic",
        balance: float = 1.0,
    ) -> Any:
        """Return a table of synthetic rows; sampling costs nothing and can be repeated.

        Parameters
        ----------
        rows
            The number of rows; default: the noisy number of private rows.
        random_state
            Seed; default: the estimator's.
        given
            Values that the rows must have, by column, or a condition such as ``"age > 30"``; see `Release.sample`.
        method
            ``"systematic"``, or ``"multinomial"`` for independent rows.
        balance
            Limit of work to bring the rows' marginals nearer to the model's, 0 to 16 times the usual work; see
            `SyntheticModel.sample`.
        """
        check_is_fitted(self)
        seed = self.random_state if random_state is None else random_state
        drawn = self.release_.sample(rows, random_state=generator(seed), given=given, method=method, balance=balance)
        return self._outer(drawn)

    def sample_to(self, path: Any, **options: Any) -> None:
        """Draw synthetic rows into a file or a database table, in bounded memory; see `SyntheticModel.sample_to`.

        Parameters
        ----------
        path
            A file, or a `SqlSource` of a table; not what was read.
        options
            ``rows``, ``random_state``, ``given``, ``block_rows``, ``escape_formulas``.

        Raises
        ------
        ParameterError
            If ``path`` is the table or the file that was read, or the rows cannot be drawn.

        Notes
        -----
        PostgreSQL, MySQL, SQLite and DuckDB are asked which tables they mean, under any name and below any view.  The
        table that was read cannot be known if it was read by a query (except in SQLite and DuckDB) or a DuckDB relation,
        if MySQL does not let you see the view, or if the release was loaded: then make sure yourself that ``path`` is
        another table.
        """
        check_is_fitted(self)
        refuse_own_tables(self._read, [path])
        self.release_.sample_to(path, **{"random_state": self.random_state, **options})

    def samples(self, m: int = 20, *, rows: int | None = None, random_state: RandomState = None) -> list[Any]:
        """Return several synthetic tables for `synthdp.combine`; costs nothing, see `Release.samples`.

        Parameters
        ----------
        m, rows
            Number of tables, and number of rows of each.
        random_state
            Seed; default: the estimator's.
        """
        check_is_fitted(self)
        seed = self.random_state if random_state is None else random_state
        return [self._outer(table) for table in self.release_.samples(m, rows=rows, random_state=generator(seed))]

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
        """Run an analysis on several synthetic tables and return intervals that include the noise.

        Costs nothing, see `Release.analyse`.

        Parameters
        ----------
        function
            The analysis, a function of one synthetic table, as `sample` returns it.
        m, population, rows, level
            As for `Release.analyse`.
        random_state
            Seed; default: the estimator's.
        """
        check_is_fitted(self)
        seed = self.random_state if random_state is None else random_state
        return self.release_.analyse(
            function, m, population=population, rows=rows, level=level, random_state=generator(seed)
        )

    def answer(self, question: Any) -> Any:
        """Return the answer to a question with its error bar, as a DataFrame; costs nothing and can be repeated.

        Parameters
        ----------
        question
            A question made by `marginal`, `count`, `share`, `sum`, `mean`, `variance`, `correlation`, `regression`,
            `quantile` or `smooth`.
        """
        check_is_fitted(self)
        return self.release_.answer(question)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the release to a folder of JSON and npz files."""
        from synthdp.release import save

        check_is_fitted(self)
        save(self.release_, path)

    def plan(self, *, rows: int | None = None, epsilon: float | Sequence[float] | None = None) -> Plan | Plans:
        """Return the expected cost and accuracy of ``fit``, before any spend; no private row is read.

        Parameters
        ----------
        rows
            Your estimate of the number of rows; default: the noisy estimate of the last ``fit``, else ``n_rows``, else
            10 000.
        epsilon
            One epsilon, or several for the trade-off curve; default: the estimator's.

        Returns
        -------
        A `Plan`, or a list of them.

        Raises
        ------
        ParameterError, SchemaError
            If a setting is out of range, or there is no schema.
        """
        from synthdp.planning import plan

        self._check_settings()
        schema = self.schema if isinstance(self.schema, DraftedSchema) else self._declared()
        if schema is None:
            raise ParameterError("plan() needs a schema with declared bounds and levels: give schema")
        known = round(self.release_.output.total) if hasattr(self, "release_") else self.n_rows
        return plan(
            schema, rows=known or ASSUMED_ROWS if rows is None else rows,
            epsilon=self.epsilon if epsilon is None else epsilon, delta=self.delta, neighbors=self.neighbors,
            mechanism=self._mechanism(), max_rows_per_unit=self.max_rows_per_unit if self.privacy_unit else 1,
            domain_budget=self.domain_budget, weight=self.weight, weight_bounds=self.weight_bounds,
            on_progress=self.on_progress or silent,
        )  # fmt: skip

    def report(
        self, path: str | PathLike[str], *, title: str | None = None, on_progress: ProgressCallback | None = None
    ) -> None:
        """Write an HTML page about the release.

        It uses the release alone, can be published and loads nothing from the network.

        Parameters
        ----------
        path
            Path of the HTML file.
        title
            Title of the page.
        on_progress
            Function that is called at the start of each stage; default: the estimator's.
        """
        from synthdp.report import write_report

        check_is_fitted(self)
        target = self.target if self.target in self.schema_.outputs else None
        told = on_progress or self.on_progress or silent
        write_report(self.release_, path, title=title, target=target, on_progress=told)

    def plot(self, column: str | None = None, *, by: str | None = None) -> Picture:
        """Return a picture of all columns, of one column, or of one column's shares by another column.

        The picture uses the release alone and can be published; see `Release.plot`.
        """
        check_is_fitted(self)
        return self.release_.plot(column, by=by)

    @staticmethod
    def load(path: str | PathLike[str]) -> Release[SyntheticModel]:
        """Return a release that was saved to a folder."""
        from synthdp.release import load

        return load(path)

    def _html_repr(self) -> str:
        """Return scikit-learn's diagram as HTML, followed by the receipt after a fit."""
        diagram = str(super()._html_repr())
        # joined, not added: what is added to Markup is escaped, and a notebook then shows the style sheet as text
        return "".join([diagram, self.receipt_._repr_html_()]) if hasattr(self, "receipt_") else diagram

    def __sklearn_tags__(self) -> Tags:
        """Return tags that allow any values; repeated fits differ, because noise is random."""
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags

    def _outer(self, table: Any, like: Any = None) -> Any:
        """Return the table as an array if ``like``, or without it the fitted input, was an array; else unchanged."""
        array = self._array if like is None else not is_table(like)
        return np.asarray(table) if array and not isinstance(like, Source) else table

    def _declared(self) -> Schema | None:
        """Return the given schema as a `Schema`, None without one; a draft must have been reviewed."""
        return None if self.schema is None else schema_given(self.schema)

    def _check_settings(self) -> PrivacyLoss:
        """Return the whole privacy loss, after checks of the settings that no later step checks."""
        loss = checked_loss(self, stacklevel=5)
        schema = (
            self.schema.schema if isinstance(self.schema, DraftedSchema) else self._declared()
        )  # a plan takes drafts
        if schema is not None and self.n_rows is not None:
            check_enough_keys(schema, self.n_rows)
        check_one_of("undiscovered", self.undiscovered, UNDISCOVERED)
        return loss

    def _public(self, X: Any, schema: Schema) -> PublicKnowledge:
        """Return the public table and totals of the settings.

        Raise ParameterError or DataError if they are unsuitable.
        """
        from synthdp.estimators.public_table import check_public, public_knowledge

        check_public(self.public, self.public_weight, X)
        return public_knowledge(self.public, self.public_totals, schema, weight=self.public_weight)

    def _mechanism(self, *, public: PublicKnowledge | None = None) -> TableMechanism:
        """Return the mechanism that the settings name; raise ParameterError for settings that it does not support."""
        settings = {
            "workload": self.workload, "target": self.target, "solver": self.solver, "bins": self.bins,
            "places": self.places, "public": public,
        }  # fmt: skip
        options = self.mechanism_options
        if isinstance(self.mechanism, str):
            progress = self.on_progress or silent
            return table_mechanism_named(self.mechanism, options=options, on_progress=progress, **settings)
        return mechanism_given(self.mechanism, options=options, **settings)


def _suited(
    release: Release[Any], model: SyntheticModel, form: TableFormat, loss: PrivacyLoss, said: Sequence[str]
) -> Release[SyntheticModel]:
    """Return the release with ``model`` as its model, which yields rows in the form of the private table.

    ``loss`` is the loss of the whole fit, with discovery; ``said`` are more receipt notes.
    """
    output = replace(model, format=form.suited(model.schema))
    return replace(release, output=output, loss=loss, receipt=release.receipt.noted(*said))


for _method in ("transform", "fit_transform"):  # only now: scikit-learn wraps them when the class is made
    setattr(SyntheticRelease, _method, available_if(_not_asked_by_imblearn)(getattr(SyntheticRelease, _method)))
