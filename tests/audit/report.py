"""The published audit: every mechanism end to end, both neighbours, and broken builds above their claims.

    python tests/audit/report.py --runs 400 --deep 20000 --write docs/audit/report.md

With ``--state FILE`` what was found is kept there, row by row, and a command that was stopped goes on where it was; each
row says when it was made.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import platform
import sys
from collections.abc import Callable, Iterator
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "tests" / "audit")]

from attackers import ATTACKERS  # noqa: E402

from synthdp import ApproxDP, Curator, PureDP  # noqa: E402
from synthdp.audit import WORLD, gaussian_bound, neighbouring_tables, score_bound, scores_of  # noqa: E402
from synthdp.domain.domain import domain_of  # noqa: E402
from synthdp.privacy import noise  # noqa: E402
from synthdp.queries.marginals import Marginals  # noqa: E402

CONFIDENCE = 0.95
CLAIMED = ApproxDP(4.0, 1e-6)
RELATIONS = ("add_remove", "replace_one")


def one_count(table: pd.DataFrame, relation: str) -> float:
    curator = Curator(table, schema=WORLD, budget=PureDP(1.0), neighbors=relation)
    return float(curator.measure(Marginals(domain_of(WORLD), ((0,),))).answers[1])


def quieter(patch: pytest.MonkeyPatch, share: float) -> None:
    """Break the build: noise of a share of its scale."""
    for law in ("discrete_laplace", "discrete_gaussian", "linf_knorm"):
        original = getattr(noise, law)
        patch.setattr(noise, law, lambda v, *, scale, original=original: original(v, scale=max(2**-9, scale * share)))


def counted(relation: str, runs: int, *, share: float = 1.0) -> dict[str, Any]:
    """One count with Laplace noise: the least of what can be audited, and so the most often."""
    with pytest.MonkeyPatch.context() as patch:
        if share < 1:
            quieter(patch, share)
        scores = scores_of(lambda table: one_count(table, relation), neighbouring_tables(relation), runs=runs)
    return found(*scores, claimed=ApproxDP(1.0, 0.0), gaussian=False)


def attacked(name: str, relation: str, runs: int, *, share: float = 1.0) -> dict[str, Any]:
    attacker = ATTACKERS[name]
    with pytest.MonkeyPatch.context() as patch:
        if share < 1:
            quieter(patch, share)
        scores = scores_of(attacker.score(relation, CLAIMED), attacker.tables(relation), runs=runs)
    return found(*scores, claimed=CLAIMED, gaussian=attacker.gaussian)


def found(without: np.ndarray, with_: np.ndarray, *, claimed: ApproxDP, gaussian: bool) -> dict[str, Any]:
    settings = {"delta": claimed.delta, "confidence": CONFIDENCE}
    return {
        "claimed": claimed.epsilon,
        "bound": score_bound(without, with_, **settings),
        "gaussian": score_bound(without, with_, **settings, bound=gaussian_bound) if gaussian else None,
        "runs": len(without),
        "made": f"{dt.datetime.now(dt.UTC):%Y-%m-%d}",
    }


def jobs(runs: int, deep: int) -> Iterator[tuple[str, str, Callable[[], dict[str, Any]]]]:
    for relation in RELATIONS:
        yield "one count", relation, lambda relation=relation: counted(relation, deep)
    for name in ATTACKERS:
        for relation in RELATIONS:
            yield name, relation, lambda name=name, relation=relation: attacked(name, relation, runs)
    half, quarter = "**broken**: half of the noise", "**broken**: a quarter of the noise"
    yield f"one count, {half}", "add_remove", lambda: counted("add_remove", deep // 4, share=0.5)
    # Where Clopper and Pearson's bound is all there is, 400 runs show 4.4 at most.
    for name, times in (("LaplaceAnswers", 4), ("GaussianAnswers", 1), ("SyntheticRelease, its folder", 1)):
        job = partial(attacked, name, "add_remove", times * runs, share=0.25)
        yield f"{name}, {quarter}", "add_remove", job


def holds(one: dict[str, Any]) -> bool:
    return max(one["bound"], one["gaussian"] or 0.0) <= one["claimed"]


def above(some: list[dict[str, Any]]) -> int:
    return sum(not holds(one) for one in some)


def row(name: str, relation: str, one: dict[str, Any]) -> str:
    gaussian = "" if one["gaussian"] is None else f"{one['gaussian']:.2f}"
    verdict = "yes" if holds(one) else "**no**"
    bound = f"{one['claimed']:g} | {one['bound']:.2f} | {gaussian} | {one['runs']} | {verdict}"
    return f"| {name} | {relation} | {bound} | {one['made']} |"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=400)
    parser.add_argument("--deep", type=int, default=20_000)
    parser.add_argument("--state", type=Path)
    parser.add_argument("--write", type=Path, required=True)
    arguments = parser.parse_args()
    state = arguments.state
    results = json.loads(state.read_text()) if state is not None and state.exists() else {}
    for name, relation, job in jobs(arguments.runs, arguments.deep):
        if f"{name} {relation}" not in results:
            results[f"{name} {relation}"] = job()
            if state is not None:
                state.write_text(json.dumps(results, indent=1))
    made = [(name, relation, results[f"{name} {relation}"]) for name, relation, _ in jobs(1, 1)]
    options = f"--runs {arguments.runs} --deep {arguments.deep} --write docs/audit/report.md"
    build = f"Python {platform.python_version()}, opendp {version('opendp')}, numpy {version('numpy')}"
    sound, broken = ([one for name, _, one in made if ("broken" in name) == kind] for kind in (False, True))
    lines = [
        "# Statistical audit",
        "",
        f"Made by `python tests/audit/report.py {options}`, {build}, {dt.datetime.now(dt.UTC):%Y-%m-%d}.",
        "",
        "Each mechanism released two neighbouring tables, each `runs` times, and an attacker who knows everything but one",
        "row turned each release into one number (`tests/audit/attackers.py`).  A quarter of the runs chose the event, the",
        "others gave the lower bound on epsilon, at confidence 0.95 each: Clopper and Pearson's, which supposes nothing,",
        "and, where the claim comes from Gaussian DP, the bound on mu as an epsilon, which sees more.  Whole releases are",
        "audited at (4, 1e-6), where few runs tell most.  Of the planner every answer is heard, scores of candidates too,",
        "in worlds in which it makes each of its measurements (`tests/planner_worlds.py`).  A bound below the claim proves",
        "nothing; one above it proves the claim wrong.  Of as many bounds at confidence 0.95 a few could be above a claim",
        "that holds with equality; the exact tests (sensitivities, laws, frozen-noise traces) carry the guarantee.",
        "",
        f"Above their claims: {above(sound)} of {len(sound)} sound rows, {above(broken)} of {len(broken)} broken builds.",
        "",
        "| mechanism | neighbours | claimed ε | lower bound | Gaussian lower bound | runs a side | holds | made |",
        "|---|---|---|---|---|---|---|---|",
        *(row(*one) for one in made),
    ]
    arguments.write.parent.mkdir(parents=True, exist_ok=True)
    arguments.write.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
