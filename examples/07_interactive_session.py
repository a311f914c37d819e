"""A session of questions that come one by one: paid once when it is opened, and most answers cost nothing of it.

A public table of weights guesses every answer.  Only when the private table says that a guess is off (at most
`max_updates` times) is a noisy answer drawn, from which the weights learn.
"""

import itertools

import pandas as pd

import synthdp as sd
from synthdp.data import adult, adult_schema

COLUMNS = ("education", "occupation", "sex")


def main() -> None:
    whole, table = adult_schema(), adult()
    schema = sd.Schema({name: whole[name] for name in COLUMNS})
    curator = sd.Curator(table, schema=schema, budget=sd.ApproxDP(1.0, 1e-6), neighbors="replace_one")
    session = sd.SparseWeights(sparsity=60, max_updates=60, queries=500).open(curator)
    print(f"{session}: the whole cost is paid, {curator.remaining or 'nothing'} is left")

    questions = [
        {"education": education, "sex": sex}
        for education, sex in itertools.product(whole["education"].levels, whole["sex"].levels)
    ]
    questions += [{"occupation": occupation, "sex": "Female"} for occupation in whole["occupation"].levels]
    lines = []
    for literals in questions * 2:  # the second time round, the weights know
        answer = session.ask(sd.sparse_conjunction(schema, literals))
        truth = (table[list(literals)] == pd.Series(literals)).all(axis=1).sum()
        lines.append((", ".join(literals.values()), truth, answer.count, answer.origin.value.split(":")[0]))

    told = pd.DataFrame(lines, columns=["rows with", "truth (NON-PRIVATE)", "answer", "from"])
    told["off by"] = (told["answer"] - told["truth (NON-PRIVATE)"]).abs()
    print(told.tail(len(questions)).sort_values("truth (NON-PRIVATE)").tail(12).round(1).to_string(index=False))
    first, second = told[: len(questions)], told[len(questions) :]
    for words, part in (("first", first), ("second", second)):
        measured = (part["from"] == "measured with noise").sum()
        print(
            f"{words} time round: {measured} of {len(part)} measured, off by {part['off by'].mean():.0f} rows on average"
        )
    release = session.close()
    print(f"\n{release.receipt}")


if __name__ == "__main__":
    main()
