"""Questions about whole records, in a universe far too large to list: a stability histogram and a random projection.

Seven columns of Adult make up a record: six million different ones are possible.  Each question leaves one column open.
"""

import math

import pandas as pd

import synthdp as sd
from synthdp.data import adult, adult_schema

COLUMNS = ["workclass", "education", "marital-status", "occupation", "race", "sex", "native-country"]
USUAL = {"race": "White", "sex": "Male", "native-country": "United-States", "marital-status": "Married-civ-spouse"}
FREE = "workclass"


def main() -> None:
    whole = adult_schema()
    schema = sd.Schema({name: whole[name] for name in COLUMNS})
    universe = math.prod(len(column.levels) + column.nullable for column in schema.values())
    table = adult()[COLUMNS]
    print(f"{universe:,} possible records, {len(table):,} rows")

    half = sd.ApproxDP(0.5, 5e-7)
    curator = sd.Curator(table, schema=schema, budget=sd.ApproxDP(1.0, 1e-6))
    histogram = sd.StabilityHistogram(spend=half).release(curator)
    projection = sd.SparseProjection(dimension=50_000, spend=half).release(curator)

    lines = []
    for education in ("HS-grad", "Bachelors", "Masters", "Doctorate"):
        for occupation in ("Craft-repair", "Prof-specialty"):
            literals = {**USUAL, "education": education, "occupation": occupation}
            query = sd.sparse_conjunction(schema, literals)
            told, projected = histogram.output.answer(query), projection.output.answer(query)
            truth = (table[list(literals)] == pd.Series(literals)).all(axis=1).sum()
            lines.append((education, occupation, query.sparsity, truth, told.count, told.error, projected.count))
    names = ["education", "occupation", "records", "real rows", "histogram", "off by at most", "projection"]
    print(f"Married white men born in the United States, any {FREE} (the real rows are NON-PRIVATE):")
    print(pd.DataFrame(lines, columns=names).round(1).to_string(index=False))
    print(f"\n{projection.receipt}")


if __name__ == "__main__":
    main()
