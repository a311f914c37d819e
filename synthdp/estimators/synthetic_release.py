"""`SyntheticRelease`: the scikit-learn façade over schema, curator, mechanism, model and storage.  No arithmetic in it."""

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

from synthdp.answers.error_bars.misfit_shares import MisfitShare, unproven_notes, unproven_points
from synthdp.checks import check_number, check_share, check_whole
from synthdp.curator import Curator, Ledger
from synthdp.domain.fresh_keys import check_enough_keys
from synthdp.errors import DataError, ParameterError, UnprotectedLabelsWarning
from synthdp.estimators.findings import (
    EPSILONS,
    addresses,
    check_discoverable,
    check_noise,
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
from synthdp.mechanisms.protocol import HasPrivacyCost, TableMechanism
from synthdp.mechanisms.survey_weights import check_weights, measure_weights, weight_notes, weights_of, with_weight
from synthdp.privacy.loss import LARGE_EPSILON, PrivacyLoss, loss_of
from synthdp.privacy.neighbors import neighbors_named
from synthdp.progress import Progress, ProgressCallback, silent
from synthdp.randomness import RandomState, generator
from synthdp.release import Release
from synthdp.sampling.synthetic_model import SyntheticModel
from synthdp.schema.columns import Categorical, Column
from synthdp.schema.schema import DraftedSchema, Reviewable, Schema, schema_given
from synthdp.tables.estimator_input import input_source, is_table, join_label, number_of_labels, split_label
from synthdp.tables.format import TableFormat
from synthdp.tables.source import Source
from synthdp.tables.sources.dataframe import FrameSource
from synthdp.tables.sources.resolve import infer_schema, without_nulls

if TYPE_CHECKING:  # pages, pictures, plans and files are loaded by the methods that make them
    from synthdp.answers.samples import Analysis
    from synthdp.curator import Discovered
    from synthdp.mechanisms.public_knowledge import PublicKnowledge
    from synthdp.pictures.picture import Picture
    from synthdp.planning import Plan, Plans

ASSUMED_ROWS = 10_000
"""Rows that a plan assumes if nobody says how many there are.  A convention."""

REFUSE = "refuse"
UNDISCOVERED = ("leave_out", REFUSE)
"""What may be done where noise hides what a column holds."""

PAIRED = (
    "a y was passed: the synthetic table has as many rows as it, so the number of rows is public and the promise is for "
    "replacing one row; the labels in y are real and no part of the release"
)
"""What a receipt says where labels were passed."""

UNPAIRED = (
    "fit_transform() returns synthetic rows but leaves y unchanged, so that a pipeline trains on REAL, unprotected labels "
    "of other rows: use TrainOnSynthetic, fit_resample() or imbalanced-learn's pipeline, which release rows and labels "
    "together"
)
"""What a warning says where labels were passed to ``fit_transform``."""

RESTATED = ". The length of y also makes the number of rows public, so the guarantee is for neighbors='replace_one'"
"""What it adds where the number of rows becomes public."""

UNCOUNTABLE = (
    "passing y would make the number of rows public, which must stay private with a privacy_unit: leave y out, give "
    "n_rows, or release rows and labels together with fit_resample() or TrainOnSynthetic"
)
"""What an error says where labels would make the number of rows of persons public."""


def _not_asked_by_imblearn(_: object) -> bool:
    """Hide the transformer from imbalanced-learn, whose pipelines take steps that transform or resample, but not both."""
    frame = sys._getframe(1)  # noqa: SLF001 - hasattr() has no other way to know its caller
    for _depth in range(6):
        if frame.f_globals.get("__name__", "").startswith("imblearn."):
            return False
        if frame.f_back is None:
            break
        frame = frame.f_back
    return True


class SyntheticRelease(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Turn a private table into a synthetic one with a differential-privacy guarantee.

    Parameters
    ----------
    schema
        What is publicly known: a `Schema`, a dict of columns by name, or the path of a schema file.  Without one,
        column names and types are taken as public; bounds and levels are discovered under ``domain_budget``.
    epsilon, delta
        The privacy loss of everything that ``fit`` releases; ``delta=0`` is pure epsilon.
    neighbors
        ``"add_remove"``: the promise hides whether a row is there, and so the number of rows.  ``"replace_one"``: it
        hides what a row says; the number of rows is public.
    n_rows
        Rows of ``fit_transform``'s result; default: the noisy estimate of the table's.
    workload
        Marginals or sets of column names that should come out right, or a mapping from them to weights; default: all alike.
        Pairs outside of it keep a fifth of what is spent on pairs, if the mechanism is `AdaptiveMarginals`.
    target
        Name of a column whose relations matter most.
    mechanism
        ``"auto"`` (see `Automatic`), ``"adaptive_marginals"``, ``"smooth_synthesis"``, ``"l1_fit"``, ``"mwem"``,
        ``"fourier_marginals"``, or a mechanism object that yields a table.  What a mechanism does not take of the other
        settings is refused, before anything is spent.
    mechanism_options
        More keyword arguments of the named mechanism (`SmoothSynthesis`, `L1Fit`, ...), by name.
    solver
        ``"auto"``, ``"lp"`` or ``"mw"`` (explicit support), ``"maxent"`` (junction tree).
    bins
        Equal bins of a numeric column before adaptive marginals refine it, at least 2.
    domain_budget
        Share of the budget for discovering what the schema leaves open: of mu squared, with a tenth of delta for the
        thresholds of levels, where the mechanism is paid in Gaussian DP as the default is; else of epsilon and delta.
        Columns are left out if nothing of them can be told from noise, with a warning; columns that a workload, the target
        or the order of an array needs stay, and so do all if none would be left, without meaning.
    undiscovered
        What to do where noise hides a range or the levels of a column, or what many of the rows hold: ``"leave_out"`` the
        column, with a warning, or ``"refuse"`` the release with a `DiscoveryError`.  To refuse, the number of rows is
        estimated first, so that a table too small for its budget costs little; the ledger gets back what was not spent.
    privacy_unit, max_rows_per_unit
        Column that names whom to protect, and how many rows of each are used; default: every row is one.  Texts, such as
        all fields of a CSV file, are one id if they are written alike; numbers and moments, if they are equal.  Left out of
        the schema, it is not released; in it, it must be an `Identifier`, released as fresh labels.  The default number
        of synthetic rows estimates the rows used.
    weight, weight_bounds
        Name of the column that says for how many units of a population a row stands, as surveys have it, and its public
        bounds ``(lower, upper)``, above 0; see `Weight`, which a schema may name in their place.  Weights of synthetic rows
        add up to the estimated population; `count`, `share`, `sum` and `mean` take the column as ``weight=``.
    places
        Name of a column of places, declared as ``Categorical(levels, groups=[...])``: its levels are counted with every
        other column at each step of the hierarchy, and synthetic rows have whole numbers that add up at every step.
    public
        A table whose rows nobody needs to protect, such as last year's file or a published sample: a dataframe, a source or
        a path, with some of the columns or all.  It is the prior of the release: what noisy answers do not tell is taken
        from it, to the extent that they bear it out.  It is never asked through the curator, and the receipt names it.
    public_weight
        The most that ``public`` counts for, in parts of its rows, above 0 and at most 1.
    public_totals
        Exact numbers of rows that are public, by column or tuple of columns, as ``{("region",): series}``: a Series or a
        mapping from values, or tuples of them, to rows; a value that is not in it has none.  Synthetic rows keep them.
    ledger, dataset
        Path of a ledger, or a `Ledger`, that records the spend before data is read, and the data's name in it.
    random_state
        Seed of the sampling; it never reaches noise.
    on_progress
        Called with a `Progress` at each stage.

    Attributes
    ----------
    release_ : Release
        The artefact: output, loss, receipt, measurements.
    schema_ : Schema
        The schema, completed.
    receipt_ : Receipt
        What was spent on what.
    misfits_ : dict of MisfitShare or None
        For each column the noisy share of values that did not fit the schema, and its standard error; ``None`` where
        the mechanism does not measure it.  Such values are left out: their rows keep their other columns.
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
        """Ask the curator of ``X`` once and keep its answers; no row is kept.

        Parameters
        ----------
        X
            A dataframe, or a source of rows.
        y
            Ignored; put the label in the table.

        Raises
        ------
        DataError, ParameterError, SchemaError
            With one sentence; nothing is spent then.
        BudgetExceededError, LedgerError
            If the ledger does not cover the spend; nothing is read then.
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
        """Fit; a ``label`` is a column that must come out."""
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
        """Discover what the schema leaves open; where that fails after an answer, go on without the open columns."""

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
        """Fit, and return a synthetic table like ``X``: same columns, order, types and library.

        Standard errors and tests that are computed on the one table that comes back are too small: they take its rows for
        real ones.  Use `analyse`.

        Parameters
        ----------
        X
            A dataframe or an array.
        y
            Labels, as scikit-learn's pipelines pass them on; they stay as they are, which is warned about.  The result
            then has as many rows as ``y``, so that the number of rows is public: the release is made, and its receipt
            written, for ``neighbors="replace_one"``, at the same epsilon and delta.  With ``n_rows`` nothing of this
            holds: the number of rows is that setting.

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

        For pipelines of imbalanced-learn, in which the later steps are trained on what this returns.

        Parameters
        ----------
        X
            A dataframe or an array.
        y
            A label for every row.
        target
            The name of the label's column, which may be one of the schema; default: the name of ``y``, else ``"target"``.
        label
            What a label may be, if the schema does not say; default: classes, discovered under ``domain_budget``.
        nullable
            Without a schema: whether synthetic values may be missing, for models that take none.

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
        """Return ``X`` brought to the declared schema, row by row: clipped, unforeseen values made missing.

        Real rows stay real: this is for applying a pipeline, whose later steps were trained on synthetic rows, to data.
        Bounds and levels that were discovered are estimates: they change no value.
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
        """Return the names of the columns that come out: the schema's."""
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
        """Draw synthetic rows; free, as often as wanted.

        Parameters
        ----------
        rows
            How many; default: the noisy estimate of the table's.
        random_state
            Seed; default: the estimator's.
        given
            Values that the rows must have, by column, or a condition such as ``"age > 30"``; see `Release.sample`.
        method
            ``"systematic"``, or ``"multinomial"`` for independent rows.
        balance
            Work done to bring the rows' tables nearer to the model's, 0 to 16 times the usual; see `SyntheticModel.sample`.
        """
        check_is_fitted(self)
        seed = self.random_state if random_state is None else random_state
        drawn = self.release_.sample(rows, random_state=generator(seed), given=given, method=method, balance=balance)
        return self._outer(drawn)

    def sample_to(self, path: Any, **options: Any) -> None:
        """Draw synthetic rows into a file or a table of a database, in bounded memory; see `SyntheticModel.sample_to`.

        Parameters
        ----------
        path
            A file, or a `SqlSource` of another table than the one that was read.
        options
            ``rows``, ``random_state``, ``given``, ``block_rows``, ``escape_formulas``.

        Raises
        ------
        ParameterError
            If it is the table that was just read, or the rows cannot be drawn.
        """
        check_is_fitted(self)
        refuse_own_tables(self._read, [path])
        self.release_.sample_to(path, **{"random_state": self.random_state, **options})

    def samples(self, m: int = 20, *, rows: int | None = None, random_state: RandomState = None) -> list[Any]:
        """Draw several synthetic tables for `synthdp.combine`; free, see `Release.samples`.

        Parameters
        ----------
        m, rows
            How many tables, and how many rows of each.
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
        """Run an analysis on several synthetic tables, with intervals that know of the noise; free, see `Release.analyse`.

        Parameters
        ----------
        function
            Of one table, a DataFrame of the release's own form.
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
        """Answer a question with its error bar, as a DataFrame; free, as often as wanted.

        Parameters
        ----------
        question
            Made by `marginal`, `count`, `share`, `sum`, `mean`, `variance`, `correlation`, `regression`, `quantile` or
            `smooth`.
        """
        check_is_fitted(self)
        return self.release_.answer(question)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the release to a folder of JSON and npz."""
        from synthdp.release import save

        check_is_fitted(self)
        save(self.release_, path)

    def plan(self, *, rows: int | None = None, epsilon: float | Sequence[float] | None = None) -> Plan | Plans:
        """Say what ``fit`` will cost and how good it will be, before any spend; reads no row.

        Parameters
        ----------
        rows
            About how many rows the table has, an assumption of yours; default: the noisy estimate of the last ``fit``, else
            ``n_rows``, else 10 000.
        epsilon
            One loss, or several for the trade-off curve; default: the estimator's.

        Returns
        -------
        A `Plan`, or a list of them.

        Raises
        ------
        ParameterError, SchemaError
            If a setting is out of range, or the schema leaves something open.
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
        """Write a page about the release, from the release alone: publishable, self-contained, without network.

        Parameters
        ----------
        path
            An HTML file.
        title
            Of the page.
        on_progress
            Called at the start of each stage; default: the estimator's.
        """
        from synthdp.report import write_report

        check_is_fitted(self)
        target = self.target if self.target in self.schema_.outputs else None
        told = on_progress or self.on_progress or silent
        write_report(self.release_, path, title=title, target=target, on_progress=told)

    def plot(self, column: str | None = None, *, by: str | None = None) -> Picture:
        """Return a picture of all columns of the release, of one as the report has it, or of its shares by another.

        See `Release.plot`; publishable as all that is made from the release.
        """
        check_is_fitted(self)
        return self.release_.plot(column, by=by)

    @staticmethod
    def load(path: str | PathLike[str]) -> Release[SyntheticModel]:
        """Read a release from a folder."""
        from synthdp.release import load

        return load(path)

    def _html_repr(self) -> str:
        """Return scikit-learn's diagram, with the receipt after a fit."""
        diagram = str(super()._html_repr())
        # joined, not added: what is added to Markup is escaped, and a notebook then shows the style sheet as text
        return "".join([diagram, self.receipt_._repr_html_()]) if hasattr(self, "receipt_") else diagram

    def __sklearn_tags__(self) -> Tags:
        """Say what scikit-learn may expect: any values, and other rows at every fit."""
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags

    def _outer(self, table: Any, like: Any = None) -> Any:
        """Return an array where the input was an array, else the table."""
        array = self._array if like is None else not is_table(like)
        return np.asarray(table) if array and not isinstance(like, Source) else table

    def _declared(self) -> Schema | None:
        """Return the schema, in whatever form it was given; a draft must have been reviewed."""
        return None if self.schema is None else schema_given(self.schema)

    def _drafted_or_declared(self) -> Schema | None:
        """Return the same for a plan, which reads no row and takes drafts."""
        return self.schema.schema if isinstance(self.schema, DraftedSchema) else self._declared()

    def _check_settings(self) -> PrivacyLoss:
        """Check the settings that no later step checks, and return the whole loss."""
        loss = loss_of(self.epsilon, self.delta)
        check_number("epsilon", self.epsilon, least=EPSILONS[0], most=EPSILONS[1])
        neighbors_named(self.neighbors)
        if self.n_rows is not None:
            check_whole("n_rows", self.n_rows)
        schema = self._drafted_or_declared()
        if schema is not None and self.n_rows is not None:
            check_enough_keys(schema, self.n_rows)
        check_share("domain_budget", self.domain_budget)
        if self.undiscovered not in UNDISCOVERED:
            raise ParameterError(f"undiscovered ({self.undiscovered!r}) must be one of: {', '.join(UNDISCOVERED)}")
        if self.on_progress is not None and not callable(self.on_progress):
            raise ParameterError("on_progress must be a function that takes one Progress")
        generator(self.random_state)
        if self.epsilon > LARGE_EPSILON:
            warnings.warn(
                f"epsilon ({self.epsilon}) is above {LARGE_EPSILON:g}, so the privacy guarantee is weak: "
                "take a smaller epsilon",
                UserWarning,
                stacklevel=5,
            )
        return loss

    def _public(self, X: Any, schema: Schema) -> PublicKnowledge:
        """Return the public table and totals of the settings; raise ParameterError or DataError if they do not suit."""
        from synthdp.estimators.public_table import check_public, public_knowledge

        check_public(self.public, self.public_weight, X)
        return public_knowledge(self.public, self.public_totals, schema, weight=self.public_weight)

    def _mechanism(self, *, public: PublicKnowledge | None = None) -> TableMechanism:
        """Return the mechanism that the settings name, or refuse what it does not take."""
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
    """Return a release whose rows have the form of the private table, and whose receipt says a little more."""
    output = replace(model, format=form.suited(model.schema))
    return replace(release, output=output, loss=loss, receipt=release.receipt.noted(*said))


for _method in ("transform", "fit_transform"):  # only now: scikit-learn wraps them when the class is made
    setattr(SyntheticRelease, _method, available_if(_not_asked_by_imblearn)(getattr(SyntheticRelease, _method)))
