"""Rules that are public knowledge hold in every synthetic row: no noise can break them, and they cost nothing."""

import numpy as np
import pandas as pd

import synthdp as sd

COLUMNS = {
    "age": sd.Integer(0, 100),
    "status": sd.Categorical(["single", "married", "widowed"]),
    "admitted": sd.Datetime("2025-01-01", "2026-01-01", resolution="D"),
    "discharged": sd.Datetime("2025-01-01", "2026-01-01", resolution="D", nullable=True),
    "ward": sd.Categorical(["general", "children", "maternity"]),
}
RULES = [
    sd.LessEqual("admitted", "discharged"),
    sd.Forbidden({"age": (0, 15), "status": ["married", "widowed"]}),
    sd.Implies(when={"ward": "children"}, then={"age": (0, 17)}),
]


def visits(rows: int = 8000) -> pd.DataFrame:
    """Invented visits that obey the rules, up to two typing errors."""
    rng = np.random.default_rng(3)
    age = rng.integers(0, 101, rows)
    ward = np.where(age < 18, "children", np.where(rng.random(rows) < 0.2, "maternity", "general"))
    status = np.where(age < 22, "single", rng.choice(["single", "married", "widowed"], rows))
    admitted = pd.Timestamp("2025-01-01") + pd.to_timedelta(rng.integers(0, 330, rows), "D")
    discharged = pd.Series(admitted + pd.to_timedelta(rng.integers(0, 30, rows), "D")).where(rng.random(rows) < 0.9)
    status[0], discharged[1] = "widowed", admitted[1] - pd.Timedelta(days=9)
    age[0] = 7
    return pd.DataFrame({"age": age, "status": status, "admitted": admitted, "discharged": discharged, "ward": ward})


def broken(table: pd.DataFrame) -> dict[str, int]:
    """How many rows break each rule."""
    return {
        "discharged before admitted": int((table["discharged"] < table["admitted"]).sum()),
        "married or widowed below 16": int(((table["age"] < 16) & (table["status"] != "single")).sum()),
        "adults on the children's ward": int(((table["age"] > 17) & (table["ward"] == "children")).sum()),
    }


def main() -> None:
    real = visits()
    counts = {"real (NON-PRIVATE)": broken(real)}
    for words, rules in (("synthetic, no rules", []), ("synthetic, with rules", RULES)):
        release = sd.SyntheticRelease(schema=sd.Schema(COLUMNS, constraints=rules), epsilon=0.3, random_state=0)
        counts[words] = broken(release.fit_transform(real))
    print("Rows that break a rule:")
    print(pd.DataFrame(counts).to_string())
    print("\n".join(line for line in str(release.receipt_).splitlines() if "rules" in line))


if __name__ == "__main__":
    main()
