"""All marginals, r-of-k and conjunctions of a few bits from one measurement of parities, with error bars."""

import pandas as pd

import synthdp as sd
from synthdp.data import adult, adult_schema
from synthdp.works.polynomials.literal_queries import SymmetricQuery

THRESHOLDS = {"age": [40], "education-num": [13], "hours-per-week": [45], "capital-gain": [1]}
COLUMNS = [*THRESHOLDS, "sex", "income"]
SENIOR = {"age>=40": 1, "education-num>=13": 1, "hours-per-week>=45": 1}

QUESTIONS = {
    "over 50K": sd.conjunction({"income": ">50K"}),
    "women over 50K": sd.conjunction({"income": ">50K", "sex": "Female"}),
    "men over 50K who work 45 hours": sd.conjunction({"income": ">50K", "sex": "Male", "hours-per-week>=45": 1}),
    "40 years, degree, or 45 hours": sd.disjunction(SENIOR),
    "two of these three": sd.r_of_k(SENIOR, r=2),
    "exactly one of these three": sd.exactly_r(SENIOR, r=1),
    "all three, and over 50K": sd.conjunction({**SENIOR, "income": ">50K"}),
}


def truth(table: pd.DataFrame, query: SymmetricQuery) -> float:
    """The exact answer, for comparison only."""
    true = sum(literal(table, name, value).astype(int) for name, value in query.literals)
    return float(pd.Series(query.values)[true].mean())


def literal(table: pd.DataFrame, name: str, value: object) -> pd.Series:
    column, cut, threshold = name.partition(">=")
    return table[column] >= float(threshold) if cut else table[column] == value


def main() -> None:
    whole, table = adult_schema(), adult()[COLUMNS]
    schema = sd.Schema({name: whole[name] for name in COLUMNS})
    curator = sd.Curator(table, schema=schema, budget=sd.PureDP(0.5), neighbors="replace_one")
    release = sd.ParityRelease(order=4, thresholds=THRESHOLDS).release(curator)
    lines = []
    for words, query in QUESTIONS.items():
        answer = release.output.answer(query)
        lines.append((words, float(answer), answer.stderr, truth(table, query)))
    print(
        pd.DataFrame(lines, columns=["share of rows with", "estimate", "stderr", "truth (NON-PRIVATE)"])
        .round(4)
        .to_string()
    )
    print(f"\n{release.receipt}")
    print("\nFive synthetic rows of bits from the same parities:")
    print(release.sample(5, random_state=0).to_string(index=False))


if __name__ == "__main__":
    main()
