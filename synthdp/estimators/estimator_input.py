"""The input forms of scikit-learn: arrays and dataframes, with or without a separate label.

Input is refused by types and shapes alone.  Scikit-learn's own checks quote values, reveal the number of rows, and
refuse a table because of one value.
"""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd
from narwhals.exceptions import DuplicateError
from scipy.sparse import issparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import _check_feature_names, _check_n_features, column_or_1d, validate_data

from synthdp.arrays import AnyArray
from synthdp.domain.encoder import numbers_of_labels
from synthdp.errors import DataError, SynthDPError
from synthdp.tables.dataframe import FrameSource, frame_of
from synthdp.tables.plain import labels_of_objects
from synthdp.tables.refusals import instead_of
from synthdp.tables.resolve import is_spark, source_of
from synthdp.tables.source import Source

DEFAULT_LABEL = "target"
"""The column name of labels ``y`` that have no name."""

_HARMLESS = (
    "Input X contains", "Found array with 0 ", "X has ", "X does not contain", "The feature names", "Feature names",
    "float() argument must be a string or a real number",
)  # fmt: skip
"""Beginnings of scikit-learn error messages that quote names and types only, so that they may be shown."""


def is_table(X: Any) -> bool:
    """Return whether ``X`` is a dataframe or a source of rows, rather than an array."""
    if isinstance(X, (Source, pd.DataFrame)) or is_spark(X):
        return True
    try:
        return nw.from_native(X, pass_through=True) is not X
    except DuplicateError:
        return True


def input_source(estimator: BaseEstimator, X: Any, *, reset: bool) -> Source:
    """Return ``X`` as a source of rows after scikit-learn's checks; the estimator stores column names and their number.

    Without ``reset`` a dataframe or array is compared with the stored names instead.

    Raises
    ------
    DataError
        If ``X`` is no table, or has no row and its length is known.
    """
    if isinstance(X, Source) or is_spark(X):
        source = source_of(X)
        estimator.n_features_in_, estimator.feature_names_in_ = len(source.names), np.array(source.names, dtype=object)
    else:
        source = FrameSource(checked_table(estimator, X, reset=reset))
    if getattr(source, "is_empty", False):
        raise DataError("the table has no rows, so there is nothing to release: give a table with rows")
    return source


def checked_table(estimator: BaseEstimator, X: Any, *, reset: bool) -> Any:
    """Return ``X`` as a dataframe after scikit-learn's checks of names and shape; any cell value is accepted.

    A refusal because of a cell would reveal it.

    Parameters
    ----------
    estimator
        Remembers the names and the number of columns if ``reset``, else is compared with them.  Lists are taken for
        numbers unless the estimator has a schema, which declares its columns.
    X
        A dataframe of any library, an array, or rows in lists; columns of an array are named x0, x1, …
    """
    if is_table(X):
        frame_of(X)  # names that are not texts, or not different, are refused in our words
        _check_feature_names(estimator, X, reset=reset)
        if hasattr(X, "shape"):
            _check_n_features(estimator, X, reset=reset)
        return X
    array = checked_array(X, typed=getattr(estimator, "schema", None) is not None)
    _check_feature_names(estimator, array, reset=reset)
    _check_n_features(estimator, array, reset=reset)
    return _named(array)


def checked_array(X: Any, *, typed: bool = False) -> AnyArray:
    """Return an array or lists of rows as an array (n, d), whose dtype does not depend on private values.

    Parameters
    ----------
    X
        An array, or rows in lists.
    typed
        Whether a schema declares the columns.  Then cells of lists stay objects; else they are read as numbers.

    Raises
    ------
    DataError
        If ``X`` is no table of real numbers, texts or objects.
    """
    if isinstance(X, (str, PathLike)):
        raise DataError("X must be a table, not a path: give CsvSource(path), ParquetSource(path) or a dataframe")
    if issparse(X):
        raise DataError("X is sparse, which is not supported: give X.toarray() instead")
    array = _of_lists(X) if isinstance(X, (list, tuple)) else _of_array(X)
    if array.ndim != 2:
        raise DataError(
            f"X must be a table with rows and columns, not of {array.ndim} dimensions. Reshape your data, for example with "
            "X.reshape(-1, 1) if it is one column"
        )
    if array.dtype.kind not in "biufOUSMm":
        raise DataError("Complex data not supported: X must hold real numbers, texts or objects")
    if not array.shape[0]:
        raise DataError("X must have at least one row, not 0 sample(s)")
    if not array.shape[1]:
        raise DataError(
            "X has 0 feature(s) (shape=(, 0)) while a minimum of 1 is required: give a table with columns"
        )  # the rows are not counted
    return array if typed or not isinstance(X, (list, tuple)) else numbers_of_cells(array)


def _of_lists(rows: Sequence[Any]) -> AnyArray:
    """Return lists of rows as an array of objects, (n, d).

    If a row is not a list, the array is one-dimensional, and the caller refuses it.
    """
    if not all(issubclass(type(row), (list, tuple, np.ndarray)) for row in rows):
        return np.empty(len(rows), object)
    if len({len(row) for row in rows}) > 1:
        raise DataError("the rows of X have different lengths: give rows of the same length")
    width = len(rows[0]) if rows else 0
    return _objects([cell for row in rows for cell in row]).reshape(len(rows), width)


def _objects(cells: Sequence[Any]) -> AnyArray:
    """Return cells as an array of objects, (n,); NumPy itself would unpack cells that are lists."""
    array = np.empty(len(cells), object)
    for i, cell in enumerate(cells):
        array[i] = cell
    return array


def _of_array(X: Any) -> AnyArray:
    """Return user input as a NumPy array; raise DataError, which quotes no value, if NumPy cannot convert it."""
    with instead_of(
        ValueError, TypeError, say=DataError("X must be a table: an array of rows and columns, or a dataframe")
    ):
        return np.asarray(X)


def numbers_of_cells(array: AnyArray) -> AnyArray:
    """Return an array of texts or objects as floats, (n, d), NaN for a cell that is no number; other arrays unchanged.

    So the dtype does not depend on private values.
    """
    if array.dtype.kind not in "OUS":
        return array
    cells = array.astype(object)
    return np.column_stack([numbers_of_labels(labels_of_objects(cells[:, j])).values for j in range(cells.shape[1])])


def _named(array: AnyArray) -> pd.DataFrame:
    """Return an array as a DataFrame with columns x0, x1, ...; object arrays keep their dtype, whatever their cells are."""
    kept = array.dtype if array.dtype == np.dtype(object) else None
    return pd.DataFrame(array, columns=[f"x{j}" for j in range(array.shape[1])], dtype=kept)


def numeric_array(estimator: BaseEstimator, X: Any, **checks: Any) -> Any:
    """Return ``X`` after scikit-learn's `validate_data`, for estimators without privacy; messages quote no value."""

    def say(error: BaseException) -> SynthDPError | None:
        if isinstance(error, (SynthDPError, MemoryError)) or str(error).startswith(_HARMLESS):
            return None
        return DataError("X must hold numbers only: encode other values as numbers, or use a model that takes texts")

    if is_table(X):
        if any(str(kind).startswith("complex") for kind in getattr(X, "dtypes", ())):
            raise DataError("Complex data not supported: X must hold real numbers")
    else:
        X = checked_array(X)
    with instead_of(Exception, say=say):
        return validate_data(estimator, X, **checks)


def checked_label(estimator: BaseEstimator, y: Any) -> Any:
    """Return ``y`` as one-dimensional labels after checks of its shape; any value is accepted.

    Raises
    ------
    DataError
        If there is no ``y``, or it has several columns.
    """
    if y is None:
        raise DataError(f"{type(estimator).__name__} requires y to be passed, but the target y is None")
    if is_table(y) or hasattr(y, "name"):
        return y
    if isinstance(y, (list, tuple)):
        return _objects(y)
    array = _of_array(y)
    if array.dtype.kind not in "biufOUSMm":
        raise DataError("Complex data not supported: y must hold real numbers, texts or objects")
    with instead_of(ValueError, say=DataError("y must be one-dimensional: one label for every row")):
        return column_or_1d(array, warn=True)


def number_of_labels(X: Any, y: Any) -> int:
    """Return the number of labels; for callers to whom the number of rows is public.

    Raises
    ------
    DataError
        If ``y`` is empty, or if the number of rows of ``X`` is known and differs.
    """
    labels, rows = _length(y), _length(X)
    if not labels or rows not in (labels, None):
        raise DataError("y must hold a label for every row of X")
    return labels


def _length(values: Any) -> int | None:
    """Return the number of rows, or ``None`` if it cannot be known without reading a table."""
    if is_table(values) and not hasattr(values, "shape"):
        return None
    try:
        shape = values.shape if hasattr(values, "shape") else np.asarray(values).shape
    except ValueError:  # rows of different lengths
        return None
    return int(shape[0]) if isinstance(shape, tuple) and shape else None


def join_label(X: Any, y: Any, *, name: str | None = None, typed: bool = False) -> tuple[Any, str]:
    """Return ``X`` with the labels ``y`` as one more column, and that column's name.

    The name is the given one, else ``y``'s, else "target".  ``typed`` is as in `checked_array`.

    Raises
    ------
    DataError
        If there is no label, not one for every row, or its name is a column of ``X`` already.
    """
    if y is None:
        raise DataError("y is missing: give one label for every row")
    if not is_table(X):
        X = _named(checked_array(X, typed=typed))
    label = str(name or getattr(y, "name", None) or DEFAULT_LABEL)
    frame = nw.from_native(X, eager_only=True)
    if label in frame.columns:
        raise DataError(f"y has the name {label!r}, which is also a column of X: give y another name")
    if isinstance(X, pd.DataFrame):
        frame = nw.from_native(X.reset_index(drop=True), eager_only=True)
    series = _label_beside(frame, y)
    if len(series) != len(frame):
        raise DataError("y must hold one label for every row of X")
    return frame.with_columns(series.alias(label)).to_native(), label


def _label_beside(frame: nw.DataFrame[Any], y: Any) -> nw.Series[Any]:
    """Return labels as a column of the frame's library, with a type that does not depend on their values.

    A type inferred from values would reveal something about them.
    """
    if isinstance(y, pd.Series) and frame.implementation.is_pandas():
        return nw.from_native(y.reset_index(drop=True), series_only=True)
    given = nw.from_native(y, series_only=True, pass_through=True)
    if isinstance(given, nw.Series) and given.implementation == frame.implementation:
        return given
    values = _objects(y) if isinstance(y, (list, tuple)) else _of_array(y)
    if values.ndim != 1:
        raise DataError("y must be one-dimensional: one label for every row")
    if frame.implementation.is_pandas():
        kept = values.dtype if values.dtype == np.dtype(object) else None  # as in `_named`
        return nw.from_native(pd.Series(values, dtype=kept), series_only=True)
    if values.dtype.kind not in "biufUMm":
        raise DataError(
            "y holds Python objects, which cannot become a column of X: give y as a column of the library of X"
        )
    native = values.tolist() if values.dtype.kind == "U" else values
    return nw.new_series(DEFAULT_LABEL, native, backend=frame.implementation)


def without_numbered_columns(X: Any) -> Any:
    """Return a DataFrame whose column names are numbers as an array, as scikit-learn treats it; others unchanged."""
    numbered = isinstance(X, pd.DataFrame) and not any(isinstance(name, str) for name in X.columns)
    return X.to_numpy() if numbered else X


def without_columns(X: Any, names: Sequence[str]) -> Any:
    """Return a dataframe without some columns, on which a model was not trained; names that it lacks are ignored."""
    frame = nw.from_native(X, eager_only=True)
    present = [name for name in names if name in frame.columns]
    return frame.drop(present).to_native() if present else X


def split_label(table: Any, label: str, *, like: tuple[Any, Any]) -> tuple[Any, Any]:
    """Return features and labels of a joined table, as arrays or dataframes like the inputs in ``like``."""
    frame = nw.from_native(table, eager_only=True)
    rows, labels = frame.drop(label), frame[label]
    X, y = like
    plain = labels.to_numpy()
    if plain.dtype == np.dtype(object):
        plain = np.array(labels.to_list())  # synthetic values may say what type they are
    return rows.to_native() if is_table(X) else rows.to_numpy(), labels.to_native() if hasattr(y, "name") else plain
