"""Estimators beside `SyntheticRelease`: models trained on synthetic rows, and two plain transformers."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import (
    BaseEstimator,
    MetaEstimatorMixin,
    OneToOneFeatureMixin,
    TransformerMixin,
    clone,
    is_classifier,
)
from sklearn.utils import Tags, get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from synthdp.domain.discretize import domain_of
from synthdp.domain.encoder import decode, encode
from synthdp.domain.grid import grid_of
from synthdp.errors import DataError, ParameterError
from synthdp.queries.trigonometric import chebyshev
from synthdp.randomness import RandomState, generator
from synthdp.release import SyntheticRelease
from synthdp.schema.columns import Categorical, Continuous
from synthdp.schema.schema import Schema
from synthdp.tables.estimator_input import (
    checked_label,
    checked_table,
    is_table,
    numeric_array,
    without_columns,
    without_numbered_columns,
)
from synthdp.tables.format import TableFormat
from synthdp.tables.frames import FrameSource


def _estimator_has(name: str) -> Any:
    def check(self: TrainOnSynthetic) -> bool:
        inner = getattr(self, "estimator_", self.estimator)
        return hasattr(inner, name)

    return check


class TrainOnSynthetic(MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """Train a supervised model on a synthetic table; rows and labels are released together.

    What is learned depends on the private rows through the release alone, so the fitted model has its guarantee.

    Parameters
    ----------
    estimator
        A classifier or regressor.
    release
        How the synthetic table is made; its schema may hold the label's column (the name of ``y``, or ``"target"``).
    n_rows
        Synthetic rows to train on; default: the release's.

    Attributes
    ----------
    estimator_ : the fitted model.
    release_ : the fitted `SyntheticRelease`.
    classes_ : of a classifier, the labels in the synthetic table.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import synthdp as sd
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> X = pd.DataFrame({"age": np.arange(2000) % 80})
    >>> y = pd.Series(X["age"] > 40, name="older")
    >>> schema = sd.Schema({"age": sd.Integer(0, 100), "older": sd.Boolean()})
    >>> model = sd.TrainOnSynthetic(DecisionTreeClassifier(max_depth=2), sd.SyntheticRelease(schema=schema, epsilon=2.0))
    >>> model.fit(X, y).predict(pd.DataFrame({"age": [5, 75]})).tolist()
    [False, True]
    """

    def __init__(
        self, estimator: Any = None, release: SyntheticRelease | None = None, *, n_rows: int | None = None
    ) -> None:
        self.estimator = estimator
        self.release = release
        self.n_rows = n_rows

    def fit(self, X: Any, y: Any) -> TrainOnSynthetic:
        """Release ``X`` with ``y`` and train on the synthetic rows.

        Raises
        ------
        DataError
            If there is no label for every row.
        """
        y = checked_label(self, y, classes=is_classifier(self))
        accepts = get_tags(self._inner()).input_tags
        X = without_numbered_columns(X)
        if not is_table(X):
            missing = "allow-nan" if accepts.allow_nan else True
            plain = None if accepts.categorical or accepts.string else "numeric"
            X = numeric_array(self, X, dtype=plain, ensure_all_finite=missing)
        release = SyntheticRelease() if self.release is None else clone(self.release)
        if self.n_rows is not None:
            release.set_params(n_rows=self.n_rows)
        kind = Categorical() if is_classifier(self) else Continuous()
        rows, labels = release.fit_resample(X, y, label=kind, nullable=accepts.allow_nan)
        self.release_ = release
        self.estimator_ = clone(self._inner()).fit(rows, labels)
        for name in ("classes_", "n_features_in_", "feature_names_in_"):
            if hasattr(self.estimator_, name):
                setattr(self, name, getattr(self.estimator_, name))
        return self

    @available_if(_estimator_has("predict"))  # type: ignore[untyped-decorator]
    def predict(self, X: Any) -> Any:
        """Return the model's predictions for real rows."""
        check_is_fitted(self)
        return self.estimator_.predict(self._trained_columns(X))

    @available_if(_estimator_has("predict_proba"))  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Any:
        """Return the model's class probabilities for real rows."""
        check_is_fitted(self)
        return self.estimator_.predict_proba(self._trained_columns(X))

    @available_if(_estimator_has("decision_function"))  # type: ignore[untyped-decorator]
    def decision_function(self, X: Any) -> Any:
        """Return the model's decision function for real rows."""
        check_is_fitted(self)
        return self.estimator_.decision_function(self._trained_columns(X))

    @available_if(_estimator_has("score"))  # type: ignore[untyped-decorator]
    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the model's score on real rows; this reads them without privacy."""
        check_is_fitted(self)
        if sample_weight is None:
            return float(self.estimator_.score(self._trained_columns(X), y))
        return float(self.estimator_.score(self._trained_columns(X), y, sample_weight=sample_weight))

    def __sklearn_tags__(self) -> Tags:
        """Take over what the model says of itself, with noise in its scores."""
        tags = super().__sklearn_tags__()
        inner = get_tags(self._inner())
        tags.estimator_type = inner.estimator_type
        tags.classifier_tags, tags.regressor_tags = inner.classifier_tags, inner.regressor_tags
        if tags.classifier_tags is not None:
            tags.classifier_tags.poor_score = True
        if tags.regressor_tags is not None:
            tags.regressor_tags.poor_score = True
        tags.target_tags = inner.target_tags
        tags.target_tags.required = True
        tags.input_tags.allow_nan = inner.input_tags.allow_nan
        tags.non_deterministic = True
        return tags

    def _trained_columns(self, X: Any) -> Any:
        """Leave out columns that the release left out, such as the privacy unit: the model never saw them."""
        left_out = getattr(self.release_, "feature_names_in_", ())
        trained = getattr(self.estimator_, "feature_names_in_", None)
        if trained is None or not is_table(X):
            return X
        unknown = [name for name in left_out if name not in trained]
        return without_columns(X, unknown)

    def _inner(self) -> Any:
        if self.estimator is not None:
            return self.estimator
        from sklearn.ensemble import HistGradientBoostingClassifier

        return HistGradientBoostingClassifier()


class TrigonometricFeatures(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Turn numeric columns into the cosine basis cos(m arccos x), m = 1 … degree, of the smooth-query mechanisms.

    Bounds that are not given are read off the data that it is fitted on, so that one row can set them: that is **not
    private**.  Give bounds that are public, or fit it on synthetic rows.

    Parameters
    ----------
    degree
        Largest degree, >= 1.
    lower, upper
        Bounds of all columns, mapped to [-1, 1]; values beyond are clipped.  Default: each column's least and largest.

    Examples
    --------
    >>> import numpy as np
    >>> import synthdp as sd
    >>> features = sd.TrigonometricFeatures(degree=2, lower=-1, upper=1).fit(np.array([[0.0], [1.0]]))
    >>> features.transform(np.array([[0.0], [1.0]])).round(1).tolist()
    [[0.0, -1.0], [1.0, 1.0]]
    """

    def __init__(self, degree: int = 3, *, lower: float | None = None, upper: float | None = None) -> None:
        self.degree = degree
        self.lower = lower
        self.upper = upper

    def fit(self, X: Any, y: Any = None) -> TrigonometricFeatures:  # noqa: ARG002
        """Note the bounds."""
        if isinstance(self.degree, bool) or not isinstance(self.degree, (int, np.integer)) or self.degree < 1:
            raise ParameterError(f"degree ({self.degree!r}) must be a whole number of at least 1")
        X = numeric_array(self, X, dtype=np.float64)
        low, high = X.min(axis=0), X.max(axis=0)
        self.lower_ = low if self.lower is None else np.full(X.shape[1], float(self.lower))
        self.upper_ = high if self.upper is None else np.full(X.shape[1], float(self.upper))
        return self

    def transform(self, X: Any) -> Any:
        """Return (n, columns × degree) features, all degrees of the first column first."""
        check_is_fitted(self)
        X = numeric_array(self, X, dtype=np.float64, reset=False)
        width = np.where(self.upper_ > self.lower_, self.upper_ - self.lower_, 1.0)
        points = np.clip(2 * (X - self.lower_) / width - 1, -1, 1)
        features = [chebyshev(points[:, j], m) for j in range(X.shape[1]) for m in range(1, self.degree + 1)]
        return np.column_stack(features)

    def get_feature_names_out(self, input_features: Any = None) -> Any:  # noqa: ARG002
        """Return ``name_cos1 … name_cosM`` for every column."""
        check_is_fitted(self)
        names = getattr(self, "feature_names_in_", [f"x{j}" for j in range(self.n_features_in_)])
        return np.array([f"{name}_cos{m}" for name in names for m in range(1, self.degree + 1)], dtype=object)


class DomainDiscretizer(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Turn a table into integer cell codes by a schema's public rules, and back.

    Parameters
    ----------
    schema
        The columns; without one, every column is a number between the least and the largest value seen (which reads the
        data: not private).
    bins
        Most cells of an ordered column.
    random_state
        Seed of the values drawn within cells by ``inverse_transform``.

    Examples
    --------
    >>> import pandas as pd
    >>> import synthdp as sd
    >>> codes = sd.DomainDiscretizer(sd.Schema({"age": sd.Integer(0, 99)}), bins=10).fit(pd.DataFrame({"age": [0, 5, 99]}))
    >>> codes.transform(pd.DataFrame({"age": [0, 5, 99]})).ravel().tolist()
    [0, 0, 9]
    """

    def __init__(self, schema: Schema | None = None, *, bins: int = 32, random_state: RandomState = None) -> None:
        self.schema = schema
        self.bins = bins
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> DomainDiscretizer:  # noqa: ARG002
        """Note the schema and the outer form."""
        if self.schema is None:
            X = numeric_array(self, X, dtype=np.float64, ensure_all_finite="allow-nan")
            X = checked_table(clone(self), X, reset=True)
            names = getattr(self, "feature_names_in_", X.columns)
            X.columns = list(names)
            self.schema_ = Schema({name: _seen_range(X[name].to_numpy()) for name in X.columns})
        else:
            X = checked_table(self, X, reset=True)
            self.schema_ = self.schema
        source = FrameSource(X)
        _check_present(source, self.schema_)
        self.format_ = TableFormat.of(source, self.schema_)
        self.domain_ = domain_of(self.schema_, bins=self.bins)
        return self

    def transform(self, X: Any) -> Any:
        """Return (n, d) cell codes."""
        check_is_fitted(self)
        table = self._table(X)
        source = FrameSource(table)
        _check_present(source, self.schema_)
        raw = next(iter(source.blocks(self.schema_)))
        units = {name: encode(column, raw[name]) for name, column in self.schema_.items()}
        return self.domain_.codes(units).astype(np.int64, order="C")

    def inverse_transform(self, X: Any) -> Any:
        """Return a table with a value drawn within each cell."""
        check_is_fitted(self)
        codes = np.asarray(X, np.int64)
        if codes.ndim != 2 or codes.shape[1] != len(self.domain_):
            raise DataError(f"codes must have {len(self.domain_)} columns")
        if (codes < 0).any() or (codes >= np.array(self.domain_.shape)).any():
            raise DataError("codes must lie within the domain's cells")
        rng = generator(self.random_state)
        table = {}
        for j, axis in enumerate(self.domain_.axes):
            column = self.schema_[axis.name]
            hidden = ~axis.emitted[codes[:, j]]
            cells = np.where(hidden, 0, codes[:, j])
            units = axis.units_in(cells, rng)
            grid = grid_of(column)
            missing = grid.other if grid.null is None else grid.null
            table[axis.name] = decode(column, np.where(hidden, missing, units).astype(np.uint32))
        return self.format_.build(self.schema_, table)

    def __sklearn_tags__(self) -> Tags:
        """Say that missing values and labels are welcome where a schema declares them."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = self.schema is not None
        tags.input_tags.string = self.schema is not None
        tags.transformer_tags.preserves_dtype = []
        return tags

    def _table(self, X: Any) -> Any:
        if self.schema is None:
            X = numeric_array(self, X, dtype=np.float64, ensure_all_finite="allow-nan", reset=False)
            X = checked_table(clone(self), X, reset=True)
            X.columns = list(self.schema_)
            return X
        table = checked_table(self, X, reset=False)
        return table if is_table(X) else table.set_axis(list(self.schema_), axis=1)


def _seen_range(values: np.ndarray) -> Continuous:
    finite = values[np.isfinite(values)]
    low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 1.0)
    return Continuous(low, high if high > low else low + 1.0, nullable=True)


def _check_present(source: FrameSource, schema: Schema) -> None:
    missing = [name for name in schema if name not in source.names]
    if missing:
        # The table's own names are not quoted: in a file without a header they are its first row.
        raise DataError(f"column {missing[0]!r} is missing; the schema has: {', '.join(schema)}")
