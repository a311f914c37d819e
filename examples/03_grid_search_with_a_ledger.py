"""A grid search fits many models, and every fit that reads the private rows is a spend.  The ledger counts them all.

First the mistake: search over models with the release inside.  The ledger refuses when its cap is reached, in other
processes too.  Then the right way: release once, and search on synthetic rows as long as you like.
"""

import tempfile
from pathlib import Path

from sklearn.model_selection import GridSearchCV
from sklearn.tree import DecisionTreeClassifier

import synthdp as sd
from synthdp.data import adult, adult_schema
from synthdp.errors import BudgetExceededError

FEATURES = ["age", "education-num", "hours-per-week", "capital-gain"]
GRID = {"max_depth": [2, 4, 6], "min_samples_leaf": [20, 100]}


def main(folder: Path) -> None:
    table, whole = adult(), adult_schema()
    X, y = table[FEATURES], table["income"]
    schema = sd.Schema({name: whole[name] for name in [*FEATURES, "income"]})
    book = sd.Ledger(folder / "ledger.sqlite")
    book.set_cap("adult", sd.ApproxDP(3.0, 1e-6))
    release = sd.SyntheticRelease(schema=schema, epsilon=0.5, ledger=folder / "ledger.sqlite", dataset="adult")
    tree = DecisionTreeClassifier(random_state=0)

    print("1. The release inside the search: 6 settings x 3 folds = 18 spends of epsilon = 0.5, and a cap of 3.")
    model = sd.TrainOnSynthetic(tree, release)
    inside = GridSearchCV(
        model, {f"estimator__{name}": values for name, values in GRID.items()}, cv=3, error_score="raise"
    )
    try:
        inside.fit(X, y)
    except BudgetExceededError as error:
        print(f"   refused: {error}")
    print(f"   The ledger counts {len(book.entries('adult'))} fits.")

    print("2. One release, for another data set with a cap of its own, and the search on synthetic rows: one spend.")
    book.set_cap("adult, once", sd.ApproxDP(1.0, 1e-6))
    rows, labels = release.set_params(dataset="adult, once", epsilon=1.0).fit_resample(X, y)
    search = GridSearchCV(tree, GRID, cv=3).fit(rows, labels)
    print(f"   best settings: {search.best_params_}")
    print(f"   accuracy on the real rows: {search.score(X, y):.3f}")

    print(f"\n{'data set':<14}{'spends':>8}  cap")
    for name in book.datasets():
        print(f"{name:<14}{len(book.entries(name)):>8}  {book.cap(name)}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:  # a real ledger stays for good
        main(Path(folder))
