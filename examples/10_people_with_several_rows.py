"""Protect people, not rows: a plan before anything is spent, a release by person, and a report to publish.

Every patient has several visits.  The promise holds for a whole patient: at most three visits of each are used.
"""

from pathlib import Path

import numpy as np
import pandas as pd

import synthdp as sd

SCHEMA = sd.Schema(
    {
        "patient": sd.Identifier("P-"),  # in the table that is released: fresh labels
        "age": sd.Integer(0, 110),
        "reason": sd.Categorical(["check-up", "emergency", "follow-up"]),
        "minutes": sd.Integer(0, 240),
    }
)


def visits(people: int = 20_000) -> pd.DataFrame:
    """Invented visits: older people come more often, and stay longer."""
    rng = np.random.default_rng(5)
    age = rng.integers(0, 100, people)
    patient = np.repeat(np.arange(people), 1 + rng.poisson(age / 25))
    reason = rng.choice(["check-up", "emergency", "follow-up"], len(patient), p=[0.5, 0.2, 0.3])
    minutes = rng.gamma(3, 5 + age[patient] / 10).clip(0, 240).round().astype(int)
    names = [f"patient number {number}" for number in patient]
    return pd.DataFrame({"patient": names, "age": age[patient], "reason": reason, "minutes": minutes})


def main(folder: Path) -> None:
    release = sd.SyntheticRelease(
        schema=SCHEMA, epsilon=1.0, privacy_unit="patient", max_rows_per_unit=3, random_state=0
    )
    print("What to expect of some 40 000 visits, before they are read:")
    for plan in release.plan(rows=40_000, epsilon=[0.3, 1.0, 3.0]):
        print(f"  epsilon {plan.epsilon:<4g}  pairs off by  {plan.errors[2]:.3f}")

    table = visits()
    synthetic = release.fit_transform(table)
    print(f"\n{release.receipt_}\n")
    print(release.answer(sd.mean("minutes", where="reason == 'emergency'")).round(1).to_string(index=False))

    both = {"real (NON-PRIVATE)": table, "synthetic": synthetic}
    old = {words: rows.groupby(rows["age"] >= 60)["minutes"].mean() for words, rows in both.items()}
    print("\nMean minutes of a visit, by whether the patient is 60 or older:")
    print(pd.DataFrame(old).round(1).to_string())
    release.report(folder / "visits.html")
    print("wrote visits.html")


if __name__ == "__main__":
    main(Path())
