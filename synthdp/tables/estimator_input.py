"""What scikit-learn's users bring: arrays and dataframes, with or without a separate label."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd
from narwhals.exceptions import DuplicateError
from sklearn.base import BaseEstimator
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    _check_feature_names,
    _check_n_features,
    assert_all_finite,
    check_array,
    column_or_1d,
    validate_data,
)

from synthdp.errors import DataError
from synthdp.tables.source import Source
from synthdp.tables.sources.dataframe import frame_of
from synthdp.tables.sources.resolve import is_spark

DEFAULT_LABEL = "target"


def is_table(X: Any) -> bool:
    """Say whether ``X`` is a dataframe or a source of rows, rather than an array."""
    if isinstance(X, (Source, pd.DataFrame)) or is_spark(X):
        return True
    try:
        return nw.from_native(X, pass_through=True) is not X
    except DuplicateError:
        return True


def checked_table(estimator: BaseEstimator, X: Any, *, reset: bool) -> Any:
    """Return ``X`` as a dataframe, checked as scikit-learn checks its input; missing and infinite values are welcome.

    Parameters
    ----------
    estimator
        Remembers the names and the number of columns if ``reset``, else is compared with them.
    X
        A dataframe of any library, or whatever `numpy.asarray` takes; columns of an array are named x0, x1, …
    """
    if is_table(X):
        frame_of(X)  # names that are no texts, or not different, are refused in our words
        _check_feature_names(estimator, X, reset=reset)
        if hasattr(X, "shape"):
            _check_n_features(estimator, X, reset=reset)
        return X
    array = _checked_array(X, estimator)
    _check_feature_names(estimator, array, reset=reset)
    _check_n_features(estimator, array, reset=reset)
    return pd.DataFrame(array, columns=[f"x{j}" for j in range(array.shape[1])])


def numeric_array(estimator: BaseEstimator, X: Any, **checks: Any) -> Any:
    """Return ``X`` as scikit-learn's `validate_data` does; what it says of a value that is no number, without the value."""
    check_dimensions(X)
    try:
        return validate_data(estimator, X, **checks)
    except ValueError as error:
        if "could not convert" in str(error):
            raise DataError("X must hold numbers only: give texts to a model that takes them, or encode them") from None
        raise


def check_dimensions(X: Any) -> None:
    """Refuse what has no rows and columns, before scikit-learn does so with a quotation of the values.

    Raises
    ------
    DataError
        If ``X`` has another number of dimensions than two, or rows of different lengths.
    """
    try:
        dimensions = X.ndim if hasattr(X, "ndim") else np.asarray(X).ndim
    except ValueError:
        raise DataError("X must be a table: its rows have different lengths") from None
    if isinstance(X, (str, PathLike)):
        raise DataError("X must be a table, not a path: give CsvSource(path), ParquetSource(path) or a dataframe")
    if dimensions != 2:
        raise DataError(
            f"X must be a table with rows and columns, not of {dimensions} dimensions. Reshape your data, for example with "
            "X.reshape(-1, 1) if it is one column"
        )


def _checked_array(X: Any, estimator: BaseEstimator | None = None) -> Any:
    check_dimensions(X)
    return check_array(X, dtype=None, ensure_all_finite=False, estimator=estimator, input_name="X")


def checked_label(estimator: BaseEstimator, y: Any, *, classes: bool) -> Any:
    """Return ``y``, one-dimensional and, if it holds classes, fit for a classifier; checked as scikit-learn checks it.

    Raises
    ------
    DataError
        If there is no ``y``.
    """
    if y is None:
        raise DataError(f"{type(estimator).__name__} requires y to be passed, but the target y is None")
    if is_table(y) or hasattr(y, "name"):
        return y
    y = column_or_1d(y, warn=True)
    assert_all_finite(y, input_name="y", estimator_name=type(estimator).__name__)
    if classes:
        check_classification_targets(y)
    return y


def number_of_labels(X: Any, y: Any) -> int:
    """Return how many labels there are; for callers to whom the number of rows is public.

    Raises
    ------
    DataError
        If ``y`` holds none, or, where ``X`` says how many rows it has, not one for every row.
    """
    labels, rows = _length(y), _length(X)
    if not labels or rows not in (labels, None):
        raise DataError("y must hold a label for every row of X")
    return labels


def _length(values: Any) -> int | None:
    """Return how many there are, if that can be told without reading a table."""
    if is_table(values) and not hasattr(values, "shape"):
        return None
    try:
        shape = values.shape if hasattr(values, "shape") else np.asarray(values).shape
    except ValueError:  # rows of different lengths
        return None
    return int(shape[0]) if isinstance(shape, tuple) and shape else None


def join_label(X: Any, y: Any) -> tuple[Any, str]:
    """Return one table of rows and labels, and the name of the label's column.

    Raises
    ------
    DataError
        If there is no label, not one for every row, or its name is a column of ``X`` already.
    """
    if y is None:
        raise DataError("y must hold a label for every row")
    if not is_table(X):
        array = _checked_array(X)
        X = pd.DataFrame(array, columns=[f"x{j}" for j in range(array.shape[1])])
    frame = nw.from_native(X, eager_only=True)
    given = nw.from_native(y, series_only=True, pass_through=True)
    label = str(getattr(y, "name", None) or DEFAULT_LABEL)
    if label in frame.columns:
        raise DataError(f"the label's name {label!r} is a column of X already: name y otherwise")
    if isinstance(given, nw.Series) and given.implementation == frame.implementation and not isinstance(y, pd.Series):
        series = given
    else:
        values = np.asarray(y)
        if values.ndim != 1:
            raise DataError("y must be one-dimensional: one label for every row")
        if isinstance(X, pd.DataFrame):
            kept = y.reset_index(drop=True) if isinstance(y, pd.Series) else pd.Series(values)
            X = X.reset_index(drop=True)
            frame = nw.from_native(X, eager_only=True)
            series = nw.from_native(kept, series_only=True)
        else:
            series = nw.new_series(label, values.tolist(), backend=frame.implementation)
    if len(series) != len(frame):
        raise DataError("y must hold a label for every row of X")
    return frame.with_columns(series.alias(label)).to_native(), label


def without_numbered_columns(X: Any) -> Any:
    """Return a dataframe whose columns have numbers for names as the array that scikit-learn takes it for."""
    numbered = isinstance(X, pd.DataFrame) and not any(isinstance(name, str) for name in X.columns)
    return X.to_numpy() if numbered else X


def without_columns(X: Any, names: Sequence[str]) -> Any:
    """Return a dataframe without some columns; those that it lacks are no matter."""
    frame = nw.from_native(X, eager_only=True)
    present = [name for name in names if name in frame.columns]
    return frame.drop(present).to_native() if present else X


def split_label(table: Any, label: str, *, like: tuple[Any, Any]) -> tuple[Any, Any]:
    """Return the rows and the labels of a joined table, as arrays where ``like`` holds arrays."""
    frame = nw.from_native(table, eager_only=True)
    rows, labels = frame.drop(label), frame[label]
    X, y = like
    return (
        rows.to_native() if is_table(X) else rows.to_numpy(),
        labels.to_native() if hasattr(y, "name") else labels.to_numpy(),
    )
