"""Train a scikit-learn pipeline on the release alone, and score it on real rows that were held out.

The release costs epsilon once; the model, its parameters and its predictions are then free to publish.
"""

from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import synthdp as sd
from synthdp.data import adult, adult_schema

LABEL = "income"


def pipeline():
    """One-hot texts, scaled numbers, logistic regression."""
    numbers, texts = make_column_selector(dtype_include="number"), make_column_selector(dtype_exclude="number")
    columns = make_column_transformer(
        (StandardScaler(), numbers), (OneHotEncoder(handle_unknown="ignore", max_categories=30), texts)
    )
    return make_pipeline(columns, LogisticRegression(max_iter=500))


def main() -> None:
    rows, held_out = train_test_split(adult(), test_size=0.25, random_state=0, stratify=adult()[LABEL])
    X, y = held_out.drop(columns=LABEL), held_out[LABEL]
    schema = adult_schema()

    print(f"{'trained on':<30}accuracy on {len(held_out)} real held-out rows")
    print(f"{'always the larger class':<30}{y.value_counts(normalize=True).max():.3f}")
    for epsilon in (0.3, 1.0, 3.0):
        release = sd.SyntheticRelease(schema=schema, epsilon=epsilon, target=LABEL, random_state=0)
        model = sd.TrainOnSynthetic(pipeline(), release).fit(rows.drop(columns=LABEL), rows[LABEL])
        print(f"{f'synthetic rows, epsilon = {epsilon:g}':<30}{model.score(X, y):.3f}")
    real = pipeline().fit(rows.drop(columns=LABEL), rows[LABEL])
    print(f"{'the real rows (not private)':<30}{real.score(X, y):.3f}")


if __name__ == "__main__":
    main()
