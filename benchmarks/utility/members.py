"""What each member of the planner is worth: releases without it, under the same noise as releases with it.

    python benchmarks/utility/members.py [--members merged,rounds] [--boards declared known] [--epsilons .3 1 4] [--seeds 2]
        [--out members.jsonl]
    python benchmarks/utility/members.py --table members.jsonl

Boards, measures and the shared noise are those of `constants.py`.  Prints one JSON line for each member, table, epsilon and
seed; ``--table`` turns such lines into a Markdown table: by member and epsilon the mean relative change of each measure over
tables, in per cent, with its standard error by the scatter of releases.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import math
import warnings
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

from constant_boards import BOARDS, Cell, compared
from constants import mean_change
from json_lines import tell

from synthdp.mechanisms.adaptive import (
    adaptive_marginals,
    coarse_triples,
    energies,
    knowledge,
    measuring,
    merging,
    screening,
    second_moments,
    selection,
    shares,
)
from synthdp.mechanisms.adaptive.optimum import Optimum
from synthdp.mechanisms.adaptive.selection import Candidate
from synthdp.sampling import synthetic_model

WITHOUT: dict[str, list[tuple[Any, str, Any]]] = {
    "interactions alone": [(module, "ONE_WAYS_KNOWN", math.inf) for module in (knowledge, shares)],
    "whole tables where single columns are noisy": [(knowledge, "ONE_WAYS_KNOWN", 0.0)],
    "merged groups": [(merging, "MERGED", 10**9)],
    "the second round": [(shares, "ROUND_SIGNAL", math.inf)],
    "triples of groups": [(screening, "MAX_TRIPLES", 0)],
    "triples that nobody named": [(coarse_triples, "MOST_SCREEN_UNNAMED", 0.0)],
    "the optimum": [(Optimum, "pays", False)],
    "shares by slopes": [(selection, "DIVISIONS", 1)],
    "tables again": [(Candidate, "measured", lambda candidate, _: candidate)],
    "ridges": [(measuring, "best_ridge", lambda *_: 1.0)],
    "errors of margins in scores": [(energies, "OF_MARGINS", 0.0)],
    "more for noisy scores": [(shares, "MOST_SCREEN", shares.SCREEN)],
    "errors of what chance explains": [(energies, "MISSTATED", 0.0)],
    "a limit of strong products": [(second_moments, "MOST_STRONG", 10**9)],
    "rank products": [(adaptive_marginals, "measure_second_moments", lambda known, *_: known)],
    "strong products again": [(second_moments, "_measure_strongest", lambda known, _: known)],
    "how likely products are": [(adaptive_marginals, "with_likely_products", lambda known, _: known)],
    "single columns again": [(adaptive_marginals, "measure_one_ways_again", lambda known, _: known)],
    "neighbours inside groups": [(synthetic_model, "dealt_out", lambda *_, **__: {})],
}
"""What takes the place of each member while it is left out: where, the name, and the substitute."""


@contextlib.contextmanager
def without(member: str) -> Iterator[None]:
    """Leave a member out."""
    with contextlib.ExitStack() as stack:
        for place, name, other in WITHOUT[member]:
            stack.enter_context(patch.object(place, name, other))
        yield


def markdown(path: Path) -> str:
    """Return the table of a file of lines."""
    found: dict[tuple[str, float], dict[str, dict[Any, list[float]]]] = defaultdict(lambda: defaultdict(dict))
    for line in map(json.loads, path.read_text(encoding="utf-8").splitlines()):
        for measure, change in line["change"].items():
            of = found[line["member"], line["epsilon"]][measure]
            of.setdefault((line["board"], line["table"]), []).append(change)
    measures = list(dict.fromkeys(measure for one in found.values() for measure in one))
    rows = ["| without | ε | " + " | ".join(measures) + " |", "|---|---" + "|---" * len(measures) + "|"]
    for (member, epsilon), changes in found.items():
        told = [mean_change(list(changes[one].values())) if one in changes else "" for one in measures]
        rows.append(f"| {member} | {epsilon:g} | " + " | ".join(told) + " |")
    return "\n".join(rows)


def main() -> None:
    """Leave the members out one after the other."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--members", default=",".join(WITHOUT), help="names, separated by commas")
    parser.add_argument("--boards", nargs="+", default=["declared"], choices=BOARDS)
    parser.add_argument("--epsilons", type=float, nargs="+", default=[0.3, 1.0, 4.0])
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--table", type=Path)
    options = parser.parse_args()
    if options.table is not None:
        print(markdown(options.table))
        return
    warnings.simplefilter("ignore")  # many releases warn of many columns that tell little; none is published here
    cells = [Cell(board, name, e) for board in options.boards for name in BOARDS[board][1] for e in options.epsilons]
    for member in options.members.split(","):
        for line in compared(cells, range(options.seeds), functools.partial(without, member)):
            tell({"member": member, **line}, options.out)


if __name__ == "__main__":
    main()
