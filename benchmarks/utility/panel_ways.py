"""Three ways to release a panel, as files for other judges: related tables, one flat table, one wide table a person.

    python benchmarks/utility/panel_ways.py --save FOLDER [--epsilon 1] [--seeds 3] [--panel star] [--shared ../shared]
        [--releases FOLDER] [--out ways.jsonl]

Writes ``FOLDER/real`` and ``FOLDER/WAY-EPSILON-SEED``, each with persons.csv and records.csv, and prints what the panel's
judge says.  *flat*: records with their person's columns, released by `SyntheticRelease` with the person as the unit; rows of
equal persons' columns are dealt out in twos, the mean number of records.  *wide*: one row a person, with a column for
whether there is a record of a period and one for each of its values.  ``sdmetrics_related.py`` reads the folders.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from json_lines import tell
from star import Panel, panel_options

import synthdp as sd

Tables = dict[str, pd.DataFrame]


def related(panel: Panel, epsilon: float, seed: int, kept: Path | None) -> Tables:
    """The tables as they are; a release that ``star.py --releases`` kept is drawn from."""
    place = None if kept is None else kept / f"{panel.name}-{epsilon:g}-{seed}"
    if place is not None and place.exists():
        return sd.load(place).sample(random_state=seed)
    return sd.DatabaseRelease(schema=panel.schema, epsilon=epsilon, random_state=seed).fit_transform(panel.tables)


def flat(panel: Panel, epsilon: float, seed: int) -> Tables:
    """Records with their person's columns."""
    key, columns = panel.schema.key, panel.schema.tables
    schema = sd.Schema(dict(columns["persons"]) | dict(columns["records"]))
    table = panel.tables["records"].merge(panel.tables["persons"], on=key)
    release = sd.SyntheticRelease(
        schema=schema, epsilon=epsilon, random_state=seed, privacy_unit=key,
        max_rows_per_unit=panel.schema.relations[0].at_most,
    )  # fmt: skip
    made = release.fit_transform(table)
    person = made[list(columns["persons"])]
    alike = person.astype("string").fillna("").agg("|".join, axis=1)
    number = pd.factorize(alike)[0].astype(np.int64) * len(made) + made.groupby(alike).cumcount().to_numpy() // 2
    made = made.assign(**{key: pd.factorize(number)[0]})
    return {
        "persons": made[[key, *columns["persons"]]].drop_duplicates(key, ignore_index=True),
        "records": made[[key, *columns["records"]]],
    }


def wide(panel: Panel, epsilon: float, seed: int) -> Tables:
    """One row a person."""
    key, order = panel.schema.key, panel.schema.relations[0].order
    persons, records = (dict(panel.schema.tables[name]) for name in ("persons", "records"))
    levels, columns = list(records[order].levels), dict(persons)
    parts = [panel.tables["persons"].set_index(key)]
    for level in levels:
        some = panel.tables["records"]
        some = some[some[order] == level].drop_duplicates(key).set_index(key).drop(columns=order)
        parts.append(some.reindex(parts[0].index).add_suffix(f" {level}"))
        parts.append(pd.Series(parts[0].index.isin(some.index), parts[0].index, name=f"there {level}").to_frame())
        columns[f"there {level}"] = sd.Boolean()
        columns |= {f"{name} {level}": with_missing(kind) for name, kind in records.items() if name != order}
    release = sd.SyntheticRelease(schema=sd.Schema(columns), epsilon=epsilon, random_state=seed)
    made = release.fit_transform(pd.concat(parts, axis=1)[list(columns)].reset_index(drop=True))
    made = made.assign(**{key: np.arange(len(made))})
    each = []
    for level in levels:
        there = made[made[f"there {level}"].fillna(value=False).astype(bool)]
        values = {name: there[f"{name} {level}"] for name in records if name != order}
        each.append(pd.DataFrame({key: there[key], order: level, **values}))
    return {"persons": made[[key, *persons]], "records": pd.concat(each, ignore_index=True)}


def with_missing(kind: sd.schema.column.Column) -> sd.schema.column.Column:
    """The column with missing values allowed."""
    if isinstance(kind, sd.Categorical):
        return sd.Categorical(kind.levels, nullable=True)
    return type(kind)(kind.lower, kind.upper, nullable=True)


def main() -> None:
    """Release, write, judge."""
    options, panel = panel_options(__doc__, ("--save", {"type": Path, "required": True}), epsilon=[1.0])
    ways: dict[str, Callable[[float, int], Tables]] = {
        "related": lambda epsilon, seed: related(panel, epsilon, seed, options.releases),
        "flat": lambda epsilon, seed: flat(panel, epsilon, seed),
        "wide": lambda epsilon, seed: wide(panel, epsilon, seed),
    }
    write(panel.tables, options.save / "real")
    for epsilon in options.epsilon:
        for seed in range(options.seeds):
            for way, make in ways.items():
                made = make(epsilon, seed)
                write(made, options.save / f"{way}-{epsilon:g}-{seed}")
                line = {"panel": panel.name, "way": way, "epsilon": epsilon, "seed": seed}
                tell(line | panel.judgement(made), options.out)


def write(tables: Tables, folder: Path) -> None:
    """Write tables into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, table in tables.items():
        table.to_csv(folder / f"{name}.csv", index=False)


if __name__ == "__main__":
    main()
