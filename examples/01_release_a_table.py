"""Release the Adult census table, save the release, and compare it with the real rows (for our eyes only)."""

from pathlib import Path

import pandas as pd

import synthdp as sd
from synthdp.data import adult, adult_schema


def main(folder: Path) -> None:
    real = adult()
    release = sd.SyntheticRelease(schema=adult_schema(), epsilon=1.0, delta=1e-9, random_state=0)
    synthetic = release.fit_transform(real)
    print(release.receipt_)

    # All of this is free: it uses what the curator answered, not the rows.
    synthetic.to_csv(folder / "synthetic.csv", index=False)
    release.save(folder / "adult.release")
    again = sd.load(folder / "adult.release")
    rich = again.sample(5, random_state=1, given={"income": ">50K"})
    print("\nFive synthetic rows with an income above 50K:")
    print(rich[["age", "education", "occupation", "hours-per-week", "income"]].to_string(index=False))

    # Not private: only the owner of the data may look at this.
    real_share = real.groupby("education", observed=True)["income"].agg(lambda income: (income == ">50K").mean())
    made_share = synthetic.groupby("education", observed=True)["income"].agg(lambda income: (income == ">50K").mean())
    table = pd.DataFrame({"real": real_share, "synthetic": made_share, "real rows": real["education"].value_counts()})
    print("\nShare of incomes above 50K by education (NON-PRIVATE comparison):")
    print(table.sort_values("real").round(3).to_string())


if __name__ == "__main__":
    main(Path())
