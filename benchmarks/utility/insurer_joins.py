"""How often the 95 % intervals of answers over three joined tables hold the truth (not private; a benchmark).

    python benchmarks/utility/insurer_joins.py [--runs 10] [--customers 2000] [--epsilon 1] [--shared ../shared] [--out F]

The insurer of ``insurer.py``, 35 questions about it, and the truth of each by pandas.  One JSON line for each kind of
question and basis: answers, the part of intervals that hold the truth, the root mean square of errors in standard errors,
and the median of half a width over 1.96 times the root mean square error of its question; and a line for each question
that is held in less than nine of ten.  A question that is refused in a sentence is counted as ``refused``.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from insurer import SHARED, Tables
from joins import summarised
from json_lines import tell

import synthdp as sd
from synthdp.errors import ParameterError


class Asked(NamedTuple):
    """A question and the truth."""

    kind: str
    question: Any
    truth: float
    of: str | None = None


def questions(real: Tables) -> list[Asked]:
    """35 questions, with their true answers."""
    c, p, k = real["customers"], real["policies"], real["claims"]
    pc = p.merge(c, on="customer_id")
    kp = k.merge(p, on=["customer_id", "policy_id"]).merge(c, on="customer_id")
    held = c["customer_id"].map(p["customer_id"].value_counts()).fillna(0)
    pc["claimed"] = pc["policy_id"].map(k["policy_id"].value_counts()).fillna(0)
    pc["paid"] = pc["policy_id"].map(k.groupby("policy_id")["amount"].sum()).fillna(0)

    def counted(rows: pd.DataFrame, where: str) -> Asked:
        return Asked("count over joins", sd.count(where), len(rows.query(where)))

    def share(rows: pd.DataFrame, condition: str, where: str, true: str = "") -> Asked:
        truth = rows.query(where).eval(true or condition).mean()
        return Asked("share of some", sd.share(condition, where=where), truth)

    def mean(rows: pd.DataFrame, column: str, where: str, true: str = "") -> Asked:
        return Asked("mean of some", sd.mean(column, where=where), rows.query(where)[true or column].mean())

    found = [
        Asked("count", sd.count(), len(c)),
        Asked("count", sd.count(), len(p), "policies"),
        Asked("count", sd.count(), len(k), "claims"),
        Asked("count", sd.count("segment == 'gold'"), len(c.query("segment == 'gold'"))),
        counted(pc, "type == 'motor' and sex == 'f'"),
        counted(kp, "cause == 'glass'"),
        counted(kp, "cause == 'illness' and type == 'health'"),
        counted(pc, "born >= 1980 and type == 'life'"),
        counted(kp, "status == 'refused' and segment == 'basic'"),
        Asked("persons with such a row", sd.count("type == 'travel'"),
              pc.query("type == 'travel'")["customer_id"].nunique(), "customers"),
        Asked("persons with such a row", sd.count("cause == 'crash'"),
              kp.query("cause == 'crash'")["customer_id"].nunique(), "customers"),
        Asked("share", sd.share("policies.rows >= 2"), (held >= 2).mean()),
        Asked("share", sd.share("policies.rows == 0"), (held == 0).mean()),
        Asked("share", sd.share("claims.rows == 0"), (pc["claimed"] == 0).mean()),
        Asked("share", sd.share("type == 'motor'"), (p["type"] == "motor").mean()),
        Asked("share", sd.share("bonus == 9"), (p["bonus"] == 9).mean()),
        share(kp, "cause == 'crash'", "type == 'motor'"),
        share(kp, "status == 'refused'", "type == 'home'"),
        share(pc, "type == 'life'", "born >= 1985"),
        share(pc, "claims.rows >= 1", "type == 'travel'", "claimed >= 1"),
        share(pc, "segment == 'gold'", "insured_sum >= 200000"),
        Asked("mean", sd.mean("income"), c["income"].mean()),
        Asked("mean", sd.mean("premium"), p["premium"].mean()),
        Asked("mean", sd.mean("bonus"), p["bonus"].mean()),
        Asked("mean", sd.mean("amount"), k["amount"].mean()),
        Asked("mean", sd.mean("claims.rows"), pc["claimed"].mean()),
        mean(pc, "premium", "type == 'home'"),
        mean(kp, "amount", "type == 'health'"),
        mean(pc, "claims.rows", "type == 'motor' and born >= 1991", "claimed"),
        mean(pc, "income", "type == 'travel'"),
        mean(pc, "claims.amount.sum", "type == 'home'", "paid"),
        Asked("sum", sd.sum("premium"), p["premium"].sum()),
        Asked("sum", sd.sum("amount"), k["amount"].sum()),
        Asked("sum", sd.sum("premium", where="segment == 'gold'"), pc.query("segment == 'gold'")["premium"].sum()),
        Asked("correlation", sd.correlation("income", "insured_sum"), pc[["income", "insured_sum"]].corr().iloc[0, 1]),
    ]  # fmt: skip
    return [one._replace(truth=float(one.truth)) for one in found]


def main() -> None:
    """Release again and again, ask, and say how often the truth was held."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--customers", type=int, default=2000)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--shared", type=Path, default=SHARED)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    folder = options.shared / "lab" / "insurer"
    if not folder.exists():
        sys.exit(f"skipped: '{folder}' is not there; give --shared the folder that has it")
    sys.path.insert(0, str(folder))
    real = importlib.import_module("tables").make(options.customers)
    schema, asked = importlib.import_module("schema").schema(), questions(real)
    lines: dict[int, list[np.ndarray]] = defaultdict(list)
    basis: dict[int, str] = {}
    refused: dict[str, int] = defaultdict(int)
    for run in range(options.runs):
        release = sd.DatabaseRelease(schema=schema, epsilon=options.epsilon, random_state=run).fit(real)
        for i, one in enumerate(asked):
            try:
                found: pd.Series = release.answer(one.question, of=one.of).iloc[0]
            except ParameterError:
                refused[one.kind] += 1
                continue
            basis[i] = found["basis"]
            lines[i].append(np.array([found["estimate"], found["lower"], found["upper"], one.truth], np.float64))
    about = {"customers": options.customers, "epsilon": options.epsilon, "runs": options.runs}
    kinds: dict[tuple[str, str], list[np.ndarray]] = defaultdict(list)
    for i, some in lines.items():
        kinds[asked[i].kind, basis[i]].append(np.array(some))
        kinds["all", basis[i]].append(np.array(some))
    for line in summarised(kinds):
        tell(about | line | {"refused": refused[line["kind"]]}, options.out)
    for i, some in lines.items():
        part = np.array(some)
        inside = float(((part[:, 1] <= part[:, 3]) & (part[:, 3] <= part[:, 2])).mean())
        if inside < 0.9:
            tell(about | {"question": str(asked[i].question), "held": round(inside, 2), "basis": basis[i]}, options.out)


if __name__ == "__main__":
    main()
