"""A model that is trained on synthetic rows alone."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.base import (
    BaseEstimator,
    MetaEstimatorMixin,
    clone,
    is_classifier,
)
from sklearn.dummy import DummyClassifier
from sklearn.utils import Tags, get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from synthdp.estimators.estimator_input import (
    checked_array,
    checked_label,
    is_table,
    join_label,
    numbers_of_cells,
    without_columns,
    without_numbered_columns,
)
from synthdp.estimators.findings import tells_of_budget
from synthdp.estimators.synthetic_release import SyntheticRelease
from synthdp.schema.columns import Categorical, Continuous

ONE_CLASS = (
    "the synthetic labels are all of one class, so the model predicts this class only: "
    "declare the classes, use more rows, or raise epsilon"
)
"""Warning text for synthetic labels that are all equal."""


def _estimator_has(name: str) -> Any:
    """Return a function of a `TrainOnSynthetic`: whether its inner estimator has the method ``name``.

    Scikit-learn shows or hides the method of `TrainOnSynthetic` by this function.
    """

    def check(self: TrainOnSynthetic) -> bool:
        inner = getattr(self, "estimator_", self.estimator)
        return hasattr(inner, name)

    return check


class TrainOnSynthetic(MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """Train a supervised model on a synthetic table, whose rows and labels are released together.

    The model depends on the private rows through the release alone, so it has the privacy guarantee of the release.

    Parameters
    ----------
    estimator
        A classifier or regressor.
    release
        A `SyntheticRelease` with the settings of the synthetic table; its schema may contain the label column.
    target
        The name of the label column; default: the name of ``y``, else ``"target"``.
    n_rows
        Number of synthetic rows to train on; default: the release's.

    Attributes
    ----------
    estimator_ : the fitted model; a `DummyClassifier` if all synthetic labels are of one class.
    release_ : the fitted `SyntheticRelease`.
    synthetic_ : the synthetic rows that the model was trained on, with their labels, as one table.
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
        self,
        estimator: Any = None,
        release: SyntheticRelease | None = None,
        *,
        target: str | None = None,
        n_rows: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.release = release
        self.target = target
        self.n_rows = n_rows

    @tells_of_budget
    def fit(self, X: Any, y: Any) -> TrainOnSynthetic:
        """Release ``X`` with ``y``, train on the synthetic rows and return the estimator.

        Costs the budget of the release.

        Raises
        ------
        DataError
            If ``y`` does not hold one label per row.
        """
        y = checked_label(self, y)
        accepts = get_tags(self._inner()).input_tags
        X = without_numbered_columns(X)
        if not is_table(X):
            any_type = accepts.categorical or accepts.string
            X = checked_array(X, typed=any_type)
            X = X if any_type else numbers_of_cells(X)
        release = SyntheticRelease() if self.release is None else clone(self.release)
        if self.n_rows is not None:
            release.set_params(n_rows=self.n_rows)
        kind = Categorical() if is_classifier(self) else Continuous()
        try:
            rows, labels = release.fit_resample(X, y, target=self.target, label=kind, nullable=accepts.allow_nan)
        finally:
            if hasattr(release, "release_"):  # paid for, whatever came afterwards
                self.release_ = release
        self.synthetic_, _ = join_label(rows, labels, name=self.target, typed=True)
        classes = _classes(labels) if is_classifier(self) else labels
        model = clone(self._inner())
        if is_classifier(self) and len(np.unique(np.asarray(classes))) < 2:  # noise may leave one class
            warnings.warn(ONE_CLASS, UserWarning, stacklevel=3)
            model = DummyClassifier()
        self.estimator_ = model.fit(rows, classes)
        for name in ("classes_", "n_features_in_", "feature_names_in_"):
            if hasattr(self.estimator_, name):
                setattr(self, name, getattr(self.estimator_, name))
        return self

    @available_if(_estimator_has("predict"))  # type: ignore[untyped-decorator]
    def predict(self, X: Any) -> Any:
        """Return the fitted model's predictions for real rows."""
        check_is_fitted(self)
        return self.estimator_.predict(self._trained_columns(X))

    @available_if(_estimator_has("predict_proba"))  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Any:
        """Return the fitted model's class probabilities for real rows."""
        check_is_fitted(self)
        return self.estimator_.predict_proba(self._trained_columns(X))

    @available_if(_estimator_has("decision_function"))  # type: ignore[untyped-decorator]
    def decision_function(self, X: Any) -> Any:
        """Return the fitted model's decision function for real rows."""
        check_is_fitted(self)
        return self.estimator_.decision_function(self._trained_columns(X))

    @available_if(_estimator_has("score"))  # type: ignore[untyped-decorator]
    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the fitted model's score on real rows.  The score reads real rows and has no privacy guarantee."""
        check_is_fitted(self)
        if sample_weight is None:
            return float(self.estimator_.score(self._trained_columns(X), y))
        return float(self.estimator_.score(self._trained_columns(X), y, sample_weight=sample_weight))

    def __sklearn_is_fitted__(self) -> bool:
        """Return whether a model was fitted; a failed fit can leave a release without a model."""
        return hasattr(self, "estimator_")

    def __sklearn_tags__(self) -> Tags:
        """Return the tags of the inner estimator, with poor scores allowed because training data has noise."""
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
        """Return ``X`` without columns that the release left out, such as the privacy unit.

        The model was not trained on them.
        """
        if not is_table(X):
            return X
        trained = self.release_.schema_.outputs
        unknown = [name for name in getattr(self.release_, "feature_names_in_", ()) if name not in trained]
        return without_columns(X, unknown)

    def _inner(self) -> Any:
        """Return the estimator to train; default: a histogram gradient boosting classifier."""
        if self.estimator is not None:
            return self.estimator
        from sklearn.ensemble import HistGradientBoostingClassifier

        return HistGradientBoostingClassifier()


def _classes(labels: Any) -> Any:
    """Return synthetic labels in a form that scikit-learn accepts as classes.

    Object arrays get their natural type.  Numbers that are not integers become texts.
    """
    plain = np.asarray(labels)
    if plain.dtype == np.dtype(object) and not all(isinstance(label, str) for label in plain.tolist()):
        labels = plain = np.array(plain.tolist())
    whole = plain.dtype.kind != "f" or (plain == np.rint(plain)).all()
    return labels if whole else plain.astype(str)
