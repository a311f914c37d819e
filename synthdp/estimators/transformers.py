"""Two transformers without privacy: a cosine basis, and integer codes of a schema's bins."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import (
    BaseEstimator,
    OneToOneFeatureMixin,
    TransformerMixin,
    clone,
)
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from synthdp.checks import check_whole
from synthdp.domain.domain import domain_of
from synthdp.domain.encoder import decode, encode
from synthdp.domain.grid import grid_of
from synthdp.errors import DataError
from synthdp.estimators.estimator_input import (
    checked_table,
    is_table,
    numeric_array,
)
from synthdp.queries.trigonometric import chebyshev
from synthdp.randomness import RandomState, generator
from synthdp.schema.columns import Continuous
from synthdp.schema.schema import Schema, schema_given
from synthdp.tables.dataframe import FrameSource
from synthdp.tables.format import TableFormat
from synthdp.tables.source import check_present


class TrigonometricFeatures(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Turn numeric columns into the cosine basis cos(m arccos x), m = 1 … degree, of the smooth-query mechanisms.

    Bounds that are not given are read from the data in ``fit``, where a single row can set them: this is **not
    private**. Give public bounds, or fit on synthetic rows.

    Parameters
    ----------
    degree
        Largest degree, >= 1.
    lower, upper
        Bounds of all columns, mapped to [-1, 1]; values beyond are clipped.  Default: each column's minimum and
        maximum.

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
        """Store the bounds of each column and return the transformer."""
        check_whole("degree", self.degree)
        X = numeric_array(self, X, dtype=np.float64)
        low, high = X.min(axis=0), X.max(axis=0)
        self.lower_ = low if self.lower is None else np.full(X.shape[1], float(self.lower))
        self.upper_ = high if self.upper is None else np.full(X.shape[1], float(self.upper))
        return self

    def transform(self, X: Any) -> Any:
        """Return the cosines cos(m arccos x), m = 1 … degree, of all columns, scaled to [-1, 1] and clipped.

        The result is (n, columns × degree), all degrees of the first column first.
        """
        check_is_fitted(self)
        X = numeric_array(self, X, dtype=np.float64, reset=False)
        width = np.where(self.upper_ > self.lower_, self.upper_ - self.lower_, 1.0)
        points = np.clip(2 * (X - self.lower_) / width - 1, -1, 1)
        features = [chebyshev(points[:, j], m) for j in range(X.shape[1]) for m in range(1, self.degree + 1)]
        return np.column_stack(features)

    def get_feature_names_out(self, input_features: Any = None) -> Any:  # noqa: ARG002
        """Return the names of the features: ``name_cos1 … name_cosM`` for every column."""
        check_is_fitted(self)
        names = getattr(self, "feature_names_in_", [f"x{j}" for j in range(self.n_features_in_)])
        return np.array([f"{name}_cos{m}" for name in names for m in range(1, self.degree + 1)], dtype=object)


class DomainDiscretizer(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Turn a table into integer bin codes by a schema's public bins, and back.

    Parameters
    ----------
    schema
        The columns.  Without a schema, every column is a number between the smallest and the largest value in the data;
        this is not private.
    bins
        Most bins of an ordered column.
    random_state
        Seed of the values that ``inverse_transform`` draws within bins.

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
        """Store the schema, its bins and the form of the table, and return the transformer."""
        if self.schema is None:
            X = numeric_array(self, X, dtype=np.float64, ensure_all_finite="allow-nan")
            X = checked_table(clone(self), X, reset=True)
            names = getattr(self, "feature_names_in_", X.columns)
            X.columns = list(names)
            self.schema_ = Schema({name: _seen_range(X[name].to_numpy()) for name in X.columns})
        else:
            X = checked_table(self, X, reset=True)
            self.schema_ = schema_given(self.schema)
        source = FrameSource(X)
        check_present(source, self.schema_)
        self.format_ = TableFormat.of(source, self.schema_)
        self.domain_ = domain_of(self.schema_, bins=self.bins)
        return self

    def transform(self, X: Any) -> Any:
        """Return the bin codes of a table, (n, d) integers."""
        check_is_fitted(self)
        table = self._table(X)
        source = FrameSource(table)
        check_present(source, self.schema_)
        raw = next(iter(source.blocks(self.schema_)))
        indices = {name: encode(column, raw[name]) for name, column in self.schema_.items()}
        return self.domain_.codes(indices).astype(np.int64, order="C")

    def inverse_transform(self, X: Any) -> Any:
        """Return a table with a random value inside each row's bin.

        Codes of bins that may not be released become missing values, or "other" in columns without missing values.
        """
        check_is_fitted(self)
        codes = np.asarray(X, np.int64)
        if codes.ndim != 2 or codes.shape[1] != len(self.domain_):
            raise DataError(f"X must be a 2-dimensional array of codes with {len(self.domain_)} columns")
        if (codes < 0).any() or (codes >= np.array(self.domain_.shape)).any():
            raise DataError("every code in X must be at least 0 and below the number of cells of its column")
        rng = generator(self.random_state)
        table = {}
        for j, axis in enumerate(self.domain_.axes):
            column = self.schema_[axis.name]
            hidden = ~axis.releasable[codes[:, j]]
            cells = np.where(hidden, 0, codes[:, j])
            indices = axis.indices_in(cells, rng)
            grid = grid_of(column)
            missing = grid.other if grid.null is None else grid.null
            table[axis.name] = decode(column, np.where(hidden, missing, indices).astype(np.uint32))
        return self.format_.build(self.schema_, table)

    def __sklearn_tags__(self) -> Tags:
        """Return tags that allow missing values, and with a schema also texts and categories."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = self.schema is not None
        tags.input_tags.string = self.schema is not None
        tags.transformer_tags.preserves_dtype = []
        return tags

    def _table(self, X: Any) -> Any:
        """Return the input as a table with the schema's column names."""
        if self.schema is None:
            X = numeric_array(self, X, dtype=np.float64, ensure_all_finite="allow-nan", reset=False)
            X = checked_table(clone(self), X, reset=True)
            X.columns = list(self.schema_)
            return X
        table = checked_table(self, X, reset=False)
        return table if is_table(X) else table.set_axis(list(self.schema_), axis=1)


def _seen_range(values: np.ndarray) -> Continuous:
    """Return a nullable column of real numbers bounded by the finite values in the data, for use without a schema.

    The bounds are 0 and 1 without a finite value, and a single value has a range of width 1.
    """
    finite = values[np.isfinite(values)]
    low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 1.0)
    return Continuous(low, high if high > low else low + 1.0, nullable=True)
