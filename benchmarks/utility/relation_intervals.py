"""How often the report's intervals of relations hold the association in the real table, over fresh releases.

    python benchmarks/utility/relation_intervals.py --rows 5000 --epsilon 1 --releases 40
    python benchmarks/utility/relation_intervals.py --shuffled --rows 9352 --epsilon 1 --releases 100

Adult, seven columns.  Prints coverage of intervals with two ends, and of "at least".  With
``--shuffled`` all fifteen columns, each put into an order of its own, so that no two are related: prints how many releases
list a relation.
"""

from __future__ import annotations

import argparse

import synthdp as sd
from synthdp.answers.relations import Relations, associations
from synthdp.data import adult, adult_schema
from synthdp.domain.encoder import encode
from synthdp.pictures.column_views import drawn_indices
from synthdp.tables.dataframe import FrameSource

COLUMNS = ["age", "education", "marital-status", "sex", "hours-per-week", "income", "race"]


def main() -> None:
    """Print how many intervals hold the truth."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=5000)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--releases", type=int, default=40)
    parser.add_argument("--shuffled", action="store_true")
    given = parser.parse_args()
    if given.shuffled:
        shuffled(given.rows, given.epsilon, given.releases)
        return
    table = adult()[COLUMNS].sample(given.rows, random_state=1)
    schema = sd.Schema({name: adult_schema()[name] for name in COLUMNS})
    (block,) = FrameSource(table).blocks(dict(schema.items()))
    held: dict[bool, list[bool]] = {True: [], False: []}
    for _ in range(given.releases):
        release = sd.SyntheticRelease(schema=schema, epsilon=given.epsilon).fit(table).release_
        model = release.model
        real = {name: encode(model.schema[name], block[name]) for name in COLUMNS}
        names, shown = associations(model, drawn_indices(model))
        _, truth = associations(model, real)
        for one in Relations(model, release.measurements).listed(names, shown):
            if one.measured:
                i, j = map(names.index, one.columns)
                held[one.partly].append(bool(one.low <= truth[i, j] <= one.high))
    for partly, found in held.items():
        said = "at least" if partly else "two ends"
        print(f"{said}: {sum(found)} of {len(found)} hold the truth")


def shuffled(rows: int, epsilon: float, releases: int) -> None:
    """Print how many releases of columns that have nothing to do with each other list a relation."""
    whole = adult()
    table = whole.apply(lambda column: column.sample(rows, random_state=whole.columns.get_loc(column.name)).to_numpy())
    found = []
    for _ in range(releases):
        release = sd.SyntheticRelease(schema=adult_schema(), epsilon=epsilon).fit(table).release_
        names, shown = associations(release.model, drawn_indices(release.model))
        found.append(Relations(release.model, release.measurements).listed(names, shown))
    listed = [one for relations in found for one in relations]
    print(f"{sum(map(bool, found))} of {releases} releases list a relation, {len(listed)} relations in all")
    for one in listed:
        print(*one.columns, one.in_words())


if __name__ == "__main__":
    main()
