"""`DatabaseRelease`: synthetic tables of several related private tables.  Other modules compute them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from typing import TYPE_CHECKING, Any

from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from synthdp.answers.misfit_shares import MisfitShare
from synthdp.answers.related.unfit import (
    Unusual,
    persons_by_noise,
    unfit_values,
    unproven_persons_notes,
    unproven_places,
    unusual_persons,
)
from synthdp.curator import Curator
from synthdp.domain.fresh_keys import check_enough_keys
from synthdp.errors import DataError, ParameterError, SchemaError, in_table
from synthdp.estimators.findings import (
    addresses,
    check_discoverable,
    checked_loss,
    discovery_notes,
    few_persons,
    misfit_notes,
    refuse_own_tables,
    tells_of_budget,
    unusual_notes,
    warn_of_misfits,
    warn_of_undiscovered,
    warn_of_unusual,
)
from synthdp.estimators.synthetic_release import SyntheticRelease
from synthdp.mechanisms.preflight import account_of, discovery_part, first_that_works, release_of
from synthdp.mechanisms.related.choosing import names_wished, relations_wished
from synthdp.mechanisms.related.related_tables import RelatedTables, check_tables, single_attributes
from synthdp.mechanisms.workload import Workload
from synthdp.privacy.loss import PrivacyLoss, loss_of
from synthdp.progress import Progress, ProgressCallback, silent
from synthdp.randomness import RandomState, generator
from synthdp.release import Release, load, save
from synthdp.sampling.database_model import DatabaseModel, outer_schema
from synthdp.sampling.restriction import without_places
from synthdp.schema.database import DatabaseSchema, check_table_names, database_schema_given
from synthdp.schema.relation import Relation
from synthdp.schema.schema import Reviewable, Schema
from synthdp.tables.format import TableFormat
from synthdp.tables.keys import check_key_types
from synthdp.tables.resolve import infer_schema, source_of
from synthdp.tables.source import Source

if TYPE_CHECKING:
    from synthdp.curator import Discovered
    from synthdp.planning import Plan, Plans
    from synthdp.planning.database_plan import DatabasePlan

LOOKED = "bounds and levels were looked for in one row of each person: the rows of these notes are such rows"
"""Receipt note of a table with discovered columns."""


class DatabaseRelease(BaseEstimator):  # type: ignore[misc]
    """Turn several private tables into synthetic tables.

    The guarantee protects a person with all rows in all tables.

    Parameters
    ----------
    schema
        A `DatabaseSchema`, or the path of its file; bounds and levels of columns may be open.  With a list of
        `Relation`, names and types of columns are taken as public, and all bounds and levels are open; CSV files have no
        types.
    epsilon, delta
        The privacy loss of everything that ``fit`` releases; ``delta=0`` is pure epsilon.
    neighbors
        ``"add_remove"``: the guarantee hides whether a person is present, with all rows.  ``"replace_one"``: it hides
        the values of all rows of a person; the number of persons is public.
    n_rows
        Number of persons in ``fit_transform``'s result; default: the noisy number of real persons.
    domain_budget
        Share of the budget for the discovery of bounds and levels, 0 < share < 1, as in `SyntheticRelease`.
    workload
        Sets of columns whose relations should be accurate, perhaps with weights, as in `SyntheticRelease`.  Columns are
        named ``table.column``, and the number of rows of a child table ``child.rows``.  Default: all relations alike.
    target
        A column, named ``table.column``, whose relations should be accurate.
    ledger, dataset
        Path of a ledger that records the spend before data is read, and the data's name in it.
    random_state
        Seed of the sampling; privacy noise never uses it.
    on_progress
        Function that is called with a `Progress` at each stage.

    Attributes
    ----------
    release_ : Release
        The release: model, loss, receipt and measurements.
    schema_ : DatabaseSchema
        The schema with the discovered bounds and levels.
    receipt_ : Receipt
        The steps of the release and their privacy costs.
    misfits_ : dict
        By table and column, the noisy fraction of out-of-domain values with its standard error; ``None`` if it was not
        measured.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import synthdp as sd
    >>> persons = pd.DataFrame({"id": range(400), "sex": ["f", "m"] * 200})
    >>> visits = pd.DataFrame({"id": np.repeat(range(400), 2), "year": [2018, 2019] * 400})
    >>> schema = sd.DatabaseSchema(
    ...     tables={
    ...         "persons": sd.Schema({"sex": sd.Categorical(["f", "m"])}),
    ...         "visits": sd.Schema({"year": sd.Integer(2015, 2019)}),
    ...     },
    ...     relations=[sd.Relation("persons", "visits", key="id", at_most=3, order="year", unique=True)],
    ... )
    >>> release = sd.DatabaseRelease(schema=schema, epsilon=1.0, random_state=0)
    >>> tables = release.fit_transform({"persons": persons, "visits": visits})
    >>> sorted(tables), set(tables["visits"]["id"]) <= set(tables["persons"]["id"])
    (['persons', 'visits'], True)
    """

    def __init__(
        self,
        *,
        schema: DatabaseSchema
        | Reviewable
        | Sequence[Relation]
        | Mapping[str, Any]
        | str
        | PathLike[str]
        | None = None,
        epsilon: float = 1.0,
        delta: float = 1e-9,
        neighbors: str = "add_remove",
        n_rows: int | None = None,
        domain_budget: float = 0.3,
        workload: Any = None,
        target: str | None = None,
        ledger: str | PathLike[str] | None = None,
        dataset: str | None = None,
        random_state: RandomState = None,
        on_progress: ProgressCallback | None = None,
    ) -> None:
        self.schema = schema
        self.epsilon = epsilon
        self.delta = delta
        self.neighbors = neighbors
        self.n_rows = n_rows
        self.domain_budget = domain_budget
        self.workload = workload
        self.target = target
        self.ledger = ledger
        self.dataset = dataset
        self.random_state = random_state
        self.on_progress = on_progress

    @tells_of_budget
    def fit(self, X: Mapping[str, Any], y: Any = None) -> DatabaseRelease:  # noqa: ARG002
        """Measure the tables through a curator, fit the model and return the estimator; no private row is stored.

        Costs ``epsilon`` and ``delta``.

        Parameters
        ----------
        X
            Dataframes or sources of rows by table name.
        y
            Ignored.

        Raises
        ------
        DataError, ParameterError, SchemaError
            If a setting, the schema or a table is unsuitable; nothing is spent then.
        BudgetExceededError, LedgerError
            If the ledger does not cover the spend; no row is read then.
        """
        schema, loss = self._checked(X)
        check_table_names(schema, X)
        if not schema.relations:
            return self._fit_one(schema, X)
        sources: dict[str, Source] = {}
        for name, one in schema.tables.items():
            with in_table(name):
                check_discoverable(one, loss)
                sources[name] = source_of(X[name], one)
        if getattr(sources[schema.root], "is_empty", False):
            raise DataError(
                f"table {schema.root!r} has no rows, so there is nothing to release: give a table with rows"
            )
        formats, schema = _formats(schema, sources)
        check_key_types(schema, sources)
        self._read = addresses(sources.values())
        curator = Curator(
            sources, schema=schema, budget=loss, neighbors=self.neighbors, ledger=self.ledger, dataset=self.dataset
        )
        extra = curator.extra_columns
        with curator:
            mechanism = RelatedTables(
                workload=self.workload, target=self.target, on_progress=self.on_progress or silent
            )
            found: dict[str, Discovered] = {}
            whole = account_of(curator, mechanism, *schema.tables.values()) if schema.undeclared else curator

            def asked() -> Release[Any]:
                if schema.undeclared:
                    mechanism.prepare(whole)
                    (self.on_progress or silent)(Progress(stage="discovery", done=0, total=1))
                    part = discovery_part(whole.budget, self.domain_budget)
                    found.update(whole.discover_tables(spend=part, takes=self._takes(schema)))
                return mechanism.release(whole, random_state=self.random_state)

            made_of: Release[Any] = release_of(
                mechanism, whole, asked, simplest=lambda _, *asked: single_attributes(*asked)
            )
            release = replace(made_of, loss=loss)
            self._one: SyntheticRelease | None = None
            known = release.output.layout.schema
            self.release_, self.schema_, self.receipt_ = release, known, release.receipt  # kept before anything else

        def finished() -> Release[Any]:
            said = [f"column {name!r} is not in the schema and was ignored" for name in extra]
            said += [
                f"table {name!r}: {note}" for name, one in found.items() for note in (*discovery_notes(one), LOOKED)
            ]
            suited = {name: form.suited(outer_schema(known, name)) for name, form in formats.items()}
            model = replace(release.output, formats=suited)
            return replace(release, output=model, receipt=release.receipt.noted(*said))

        made, failed = first_that_works(finished, lambda: release)
        self.release_ = made.salvaged("bringing the tables to the form of the private ones", failed)
        self.receipt_ = self.release_.receipt
        unusual, few, shares = self._without_unproven_values()
        for name, seen in found.items():
            warn_of_undiscovered(seen, table=name, stacklevel=5)
        warn_of_unusual(unusual, few, stacklevel=5)
        warn_of_misfits(shares, stacklevel=5)
        return self

    def _takes(self, schema: DatabaseSchema) -> Callable[[str, Schema], bool]:
        """Return a function from a table's name and the schema of its remaining columns: whether a release then works.

        A release fails if the workload or the target names a lost column, or if a `Workload` names columns by
        position.  Discovery then keeps the column.
        """
        wished, names = relations_wished(schema, self.workload, self.target), names_wished(schema)
        needed = {names[i] for clique, _ in wished.weights or () for i in clique}
        needed |= set() if wished.target is None else {names[wished.target]}
        by_place = isinstance(self.workload, Workload)

        def takes(table: str, rest: Schema) -> bool:
            gone = {f"{table}.{column}" for column in schema.tables[table] if column not in rest}
            return not by_place and not gone & needed

        return takes

    def _without_unproven_values(self) -> tuple[list[Unusual], Unusual | None, dict[str, MisfitShare | None]]:
        """Leave values that noise explains out of the model, and add receipt notes on these and on out-of-domain values.

        Such values are missing values, and labels for other values in discovered columns.  Return the noisy numbers of
        unusual persons, the number of all persons if noise explains it (else ``None``), and the fraction of
        out-of-domain values by "table.column".  Only noisy answers are read, at no cost.
        """
        model, measured = self.release_.output, self.release_.measurements
        layout = model.layout

        def looked() -> tuple[list[Unusual], Unusual | None, Any, tuple[str, ...], DatabaseModel]:
            unproven = unproven_places(layout, measured)
            hidden = unproven_persons_notes(unproven, layout.schema)
            made = without_places(model, unproven)
            return (
                unusual_persons(layout, measured), persons_by_noise(measured), unfit_values(layout, measured), hidden, made
            )  # fmt: skip

        found, failed = first_that_works(looked, lambda: ([], None, {}, (), model))
        unusual, few, self.misfits_, hidden, made = found
        shares = {f"{name}.{column}": one for name, some in self.misfits_.items() for column, one in some.items()}
        receipt = self.receipt_.noted(*unusual_notes(unusual), *few_persons(few), *misfit_notes(shares), *hidden)
        self.release_ = replace(self.release_, output=made, receipt=receipt)
        self.release_ = self.release_.salvaged("a look at what does not fit", failed)
        self.receipt_ = self.release_.receipt
        return unusual, few, shares

    def _of_one(self, schema: DatabaseSchema) -> SyntheticRelease:
        """Return the estimator, with these settings, of a database of one table."""
        return SyntheticRelease(
            schema=schema.tables[schema.root], epsilon=self.epsilon, delta=self.delta, neighbors=self.neighbors,
            n_rows=self.n_rows, domain_budget=self.domain_budget, workload=self.workload, target=self.target,
            ledger=self.ledger, dataset=self.dataset, random_state=self.random_state, on_progress=self.on_progress,
        )  # fmt: skip

    def _fit_one(self, schema: DatabaseSchema, X: Mapping[str, Any]) -> DatabaseRelease:
        """Fit a database of one table with `SyntheticRelease`, take over its results and return the estimator."""
        one = self._of_one(schema)
        try:
            one.fit(X[schema.root])
        finally:
            if hasattr(one, "release_"):  # paid for, whatever came afterwards
                self._one, self.schema_ = one, schema.completed({schema.root: one.release_.output.schema})
                self.release_, self.receipt_ = one.release_, one.receipt_
                self.misfits_ = {schema.root: getattr(one, "misfits_", {})}
        return self

    @tells_of_budget
    def fit_transform(self, X: Mapping[str, Any], y: Any = None) -> dict[str, Any]:  # noqa: ARG002
        """Fit and return synthetic tables with the columns, order, types and library of the tables in ``X``."""
        return self.fit(X).sample(self.n_rows)

    def sample(
        self,
        rows: int | None = None,
        *,
        random_state: RandomState = None,
        given: Mapping[str, Any] | str | Sequence[str] | None = None,
    ) -> dict[str, Any]:
        """Return synthetic tables of persons with all their rows; sampling costs nothing and can be repeated.

        Parameters
        ----------
        rows
            The number of persons; default: the noisy number of real persons.
        random_state
            Seed; default: the estimator's.
        given
            Required values by column.  ``age`` names a column of the root table, ``visits[1].cost`` of a person's first
            row in an ordered table, and ``visits.cost`` of any row; see `DatabaseModel.sample`.  Or a condition on
            columns of the root table and of tables below, such as ``"sex == 'f' and visits.cost > 90"``.
        """
        check_is_fitted(self)
        seed = self.random_state if random_state is None else random_state
        if self._one is not None:
            return {self.schema_.root: self._one.sample(rows, random_state=seed, given=given)}
        made: dict[str, Any] = self.release_.sample(rows, random_state=generator(seed), given=given)
        return made

    def sample_to(self, folder: Any, **options: Any) -> None:
        """Draw synthetic persons into a new folder or a `SqlDatabase`, in bounded memory.

        See `DatabaseModel.sample_to`.

        Parameters
        ----------
        folder
            A new or empty folder, or a `SqlDatabase`.  For a release of one table, a file or a database table; see
            `SyntheticModel.sample_to`.
        options
            ``rows``, ``random_state``, ``given``, ``ending``.

        Raises
        ------
        ParameterError
            If the folder is not empty, a target table is a private table that was read, or the rows cannot be drawn.

        Notes
        -----
        PostgreSQL, MySQL, SQLite and DuckDB are asked whether a target table is a private table that was read, under
        another name or below a view.  They cannot tell this in four cases.  The private table was read by a query
        (except in SQLite and DuckDB), or as a DuckDB relation; MySQL does not let you see the view; or the release was
        loaded from a file.  Then make sure yourself that the tables differ.
        """
        check_is_fitted(self)
        if self._one is not None:
            self._one.sample_to(folder, **{"random_state": self.random_state, **options})
            return
        if isinstance(folder, Mapping):
            refuse_own_tables(getattr(self, "_read", ()), folder.values())
        self.release_.sample_to(folder, **{"random_state": self.random_state, **options})

    def answer(self, question: Any, *, of: str | None = None) -> Any:
        """Return the answer to a question about the private tables, with standard error and 95 % interval.

        Costs nothing.

        Parameters
        ----------
        question
            A question made by `count`, `share`, `sum`, `mean`, `variance`, `correlation`, `quantile` or `marginal`.
            Names are columns, or ``table.column`` if several tables have the name.  ``visits.rows`` is the number of
            visits of a person.  ``visits.cost.mean`` (or ``sum``, ``min``, ``max``, ``first``, ``last``) summarises a
            person's visits.
        of
            The table whose rows are counted; default: the lowest table that the question names.

        Raises
        ------
        ParameterError
            If the question names an unknown column, or tables whose rows are not joined.

        Examples
        --------
        >>> import numpy as np
        >>> import pandas as pd
        >>> import synthdp as sd
        >>> persons = pd.DataFrame({"id": range(400), "sex": ["f", "m"] * 200})
        >>> visits = pd.DataFrame({"id": np.repeat(range(400), 2), "year": [2018, 2019] * 400})
        >>> schema = sd.DatabaseSchema(
        ...     tables={
        ...         "persons": sd.Schema({"sex": sd.Categorical(["f", "m"])}),
        ...         "visits": sd.Schema({"year": sd.Integer(2015, 2019)}),
        ...     },
        ...     relations=[sd.Relation("persons", "visits", key="id", at_most=3, order="year", unique=True)],
        ... )
        >>> release = sd.DatabaseRelease(schema=schema, epsilon=1.0).fit({"persons": persons, "visits": visits})
        >>> release.answer(sd.count("sex == 'f' and year == 2019")).columns.tolist()
        ['estimate', 'standard_error', 'lower', 'upper', 'basis']
        >>> release.answer(sd.share("visits.rows >= 2"))["basis"][0]
        'measured'
        """
        check_is_fitted(self)
        if self._one is not None:
            if of not in (None, self.schema_.root):
                raise ParameterError(
                    f"of={of!r} names no table of this release: leave of out, or give of={self.schema_.root!r}"
                )
            return self._one.answer(question)
        return self.release_.answer(question, of=of)

    def persons_with_history(self, rows: int | None = None, *, random_state: RandomState = None) -> Any:
        """Return synthetic persons as one table, with a column for each value of each of their rows.

        Rows of a child table are numbered from 1, such as ``visits[1].cost``; absent rows are missing values.  The form
        suits models that take one table of features.  `synthdp.tables.history_rows.with_history` makes the same form
        from real tables.

        Parameters
        ----------
        rows
            The number of persons; default: the noisy number of real persons.
        random_state
            Seed; default: the estimator's.
        """
        from synthdp.tables.history_rows import with_history

        return with_history(self.sample(rows, random_state=random_state), self.schema_)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the release to a folder of JSON and npz files; `synthdp.load` reads the folder."""
        check_is_fitted(self)
        save(self.release_, path)

    def report(self, path: str | PathLike[str], *, title: str | None = None) -> None:
        """Write an HTML page about the release.

        It uses the release alone, can be published and loads nothing from the network.

        The page has a section per table and per relation, the privacy card and the receipt.  For one table, it is the
        report of `SyntheticRelease`.

        Parameters
        ----------
        path
            Path of the HTML file.
        title
            Title of the page; default: a general title.

        Raises
        ------
        DataError
            If the file cannot be written.
        """
        check_is_fitted(self)
        if self._one is not None:
            self._one.report(path, title=title)
            return
        from synthdp.report import write_report

        write_report(self.release_, path, title=title)

    def plan(
        self, *, rows: Mapping[str, int] | None = None, epsilon: float | None = None
    ) -> DatabasePlan | Plan | Plans:
        """Return the expected cost and noise of ``fit``, before any spend; no private row is read.

        For one table, it is the plan of `SyntheticRelease`.

        Parameters
        ----------
        rows
            Your estimate of the number of rows by table; default: 10 000 persons, each with half of the rows allowed.
        epsilon
            The epsilon of the plan; default: the estimator's.

        Raises
        ------
        ParameterError, SchemaError
            If a setting is out of range.
        """
        schema, _ = self._checked()
        if not schema.relations:
            return self._of_one(schema).plan(rows=(rows or {}).get(schema.root), epsilon=epsilon)
        loss = loss_of(self.epsilon if epsilon is None else epsilon, self.delta)
        from synthdp.planning.database_plan import plan_database

        return plan_database(schema, loss, neighbors=self.neighbors, rows=rows or {}, domain_budget=self.domain_budget)

    @staticmethod
    def load(path: str | PathLike[str]) -> Release[DatabaseModel]:
        """Return a release that was saved to a folder."""
        return load(path)

    def _checked(self, X: object = None) -> tuple[DatabaseSchema, PrivacyLoss]:
        """Return the schema and the whole loss, after checks of the settings that no later step checks."""
        if self.schema is None:
            raise ParameterError(
                "schema must be a DatabaseSchema for several tables, because the columns that join the tables "
                "cannot be guessed"
            )
        given = self.schema
        schema = _of_types(given, X) if isinstance(given, (list, tuple)) else database_schema_given(given)
        loss = checked_loss(self, stacklevel=4)
        if schema.relations:
            check_tables(schema)
            relations_wished(schema, self.workload, self.target)
        if self.n_rows is not None:
            check_enough_keys(outer_schema(schema, schema.root), self.n_rows)
        return schema, loss


def _of_types(relations: Sequence[Relation], X: object) -> DatabaseSchema:
    """Return the schema of related tables, from the names and types of their columns alone.

    All bounds and levels are open, to be discovered.

    Raises
    ------
    DataError, ParameterError, SchemaError
        If the list has other items than relations, or a table is missing or has no types.
    """
    if not relations or not all(isinstance(one, Relation) for one in relations):
        raise ParameterError("schema must be a DatabaseSchema, the path of its file, or a list of Relation")
    if not isinstance(X, Mapping):
        if X is not None:
            raise DataError(f"the tables must be a dict of tables by name, not {type(X).__name__}")
        raise ParameterError(
            "schema must be a DatabaseSchema if no tables are given, because relations alone do not name the columns"
        )
    children = {one.child for one in relations}
    person = [key for one in relations if one.parent not in children for key in one.keys]
    tables = {}
    for name in dict.fromkeys(name for one in relations for name in (one.parent, one.child)):
        if name not in X:
            raise DataError(f"table {name!r} is missing: add it to the tables, because the relations name it")
        keys = {*person, *(key for one in relations if name in (one.parent, one.child) for key in one.keys)}
        with in_table(name):
            known = infer_schema(source_of(X[name]))
            if not known.keys() - keys:
                raise SchemaError(
                    "all columns are keys: give the table a column that is no key, or leave the table out"
                )
        tables[name] = known.part([column for column in known if column not in keys])
    return DatabaseSchema(tables, relations)


def _formats(schema: DatabaseSchema, sources: Mapping[str, Source]) -> tuple[dict[str, TableFormat], DatabaseSchema]:
    """Return the form of every table, and the schema without missing values in columns whose type cannot hold them.

    Synthetic tables get the library and types of these forms.  Raise DataError if a table lacks a column.
    """
    formats, tables = {}, {}
    for name, source in sources.items():
        outer = outer_schema(schema, name)
        lacking = [column for column in outer if column not in source.names and column not in schema.computed_in(name)]
        if lacking:
            raise DataError(
                f"column {lacking[0]!r} is missing from table {name!r}: add it; the schema has: {', '.join(outer)}"
            )
        with in_table(name):
            formats[name] = TableFormat.of(source, outer)
        tables[name] = formats[name].without_impossible_nulls(schema.tables[name])
    return formats, schema.with_columns(tables)
