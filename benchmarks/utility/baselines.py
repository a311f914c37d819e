"""The classical mechanisms on one small domain, error against epsilon beside each paper's bound; and on Adult's bits.

    python benchmarks/utility/baselines.py [--tiny] [--part small|adult] [--repeat 3] [--out results.jsonl]
    python benchmarks/utility/baselines.py --plot results.jsonl docs/mechanisms/images

Small: three yes-no columns of the Adult table (8 cells), 26 marginal cells and 174 random sets of cells, replaced rows,
delta 1e-6 where Gaussian noise needs one.  Adult: 8 or 12 yes-no columns, all 3-way tables, epsilon 1.  One JSON line
per mechanism, epsilon and repetition; errors are of averages, the largest over all queries.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from synthdp.curator import Curator
from synthdp.data import adult
from synthdp.domain.domain import Domain, domain_of, releasable_domain, universe
from synthdp.measurements import NoiseLaw
from synthdp.mechanisms.direct_answers import GaussianAnswers, LaplaceAnswers
from synthdp.privacy import calibration
from synthdp.privacy.loss import ApproxDP, PrivacyLoss, PureDP
from synthdp.queries.linear import CellQueries
from synthdp.queries.marginals import Marginals, all_cliques
from synthdp.queries.protocol import LinearQueries
from synthdp.schema.columns import Boolean
from synthdp.schema.schema import Schema
from synthdp.works.net.mwem import MWEM, mwem_bound
from synthdp.works.net.net import NetMechanism, net_bound
from synthdp.works.net.online import OnlineSession
from synthdp.works.net.online_mechanisms import MedianMechanism, PrivateMultiplicativeWeights, median_bound, pmw_bound
from synthdp.works.net.private_boosting import PrivateBoosting, boosting_bound
from synthdp.works.polynomials.fourier_marginals import FourierMarginals, fourier_bound

DELTA, BETA = 1e-6, 0.01
EPSILONS = (0.03, 0.1, 0.3, 1.0)
SKILLED = ("Adm-clerical", "Exec-managerial", "Prof-specialty", "Sales", "Tech-support")


def adult_bits() -> pd.DataFrame:
    """Fourteen yes-no columns of the Adult table, cut at public thresholds."""
    raw = adult()
    return pd.DataFrame(
        {
            "over 40": raw["age"] >= 40,
            "some college": raw["education-num"] >= 10,
            "married": raw["marital-status"].str.startswith("Married"),
            "husband": raw["relationship"] == "Husband",
            "male": raw["sex"] == "Male",
            "over 50K": raw["income"] == ">50K",
            "40 hours": raw["hours-per-week"] >= 40,
            "degree": raw["education-num"] >= 13,
            "white collar": raw["occupation"].isin(SKILLED),
            "private": raw["workclass"] == "Private",
            "white": raw["race"] == "White",
            "capital gain": raw["capital-gain"] > 0,
            "capital loss": raw["capital-loss"] > 0,
            "born in the US": raw["native-country"] == "United-States",
        }
    )


@dataclass(frozen=True)
class World:
    """A table of yes-no columns and its domain."""

    table: pd.DataFrame
    schema: Schema
    domain: Domain

    @classmethod
    def of(cls, columns: int, *, rows: int | None = None) -> World:
        table = adult_bits().iloc[:rows, :columns]
        schema = Schema({name: Boolean() for name in table.columns})
        return cls(table, schema, releasable_domain(domain_of(schema)))

    @property
    def n(self) -> int:
        return len(self.table)

    def curator(self, loss: PrivacyLoss) -> Curator:
        return Curator(self.table, schema=self.schema, budget=loss, neighbors="replace_one")

    def truth(self, queries: LinearQueries) -> np.ndarray:
        return queries.sums(self.table.to_numpy().astype(np.int64)) / self.n


def predicates(domain: Domain, k: int) -> CellQueries:
    """All marginal cells, then random sets of cells: k queries with values 0 and 1."""
    cells = universe(domain)
    every = [Marginals(domain, all_cliques(domain, order)).features(cells).T for order in (1, 2, 3)]
    marginal = np.vstack(every)
    extra = np.random.default_rng(0).integers(0, 2, (k - len(marginal), len(cells)))
    return CellQueries(domain, np.vstack([marginal, extra]))


Run = tuple[np.ndarray, float | None]
"""Errors of averages, and the bound that holds with probability 1 - BETA where the paper has one."""


def small_runs(world: World, queries: CellQueries, epsilon: float) -> dict[str, Callable[[], Run]]:
    n, k, cells = world.n, queries.k, world.domain.cells
    truth = world.truth(queries)
    tables = Marginals(world.domain, all_cliques(world.domain, 1) + all_cliques(world.domain, 2))
    pure, approx = PureDP(epsilon), ApproxDP(epsilon, DELTA)
    each = {"sensitivity": 1 / n, "epsilon": epsilon, "beta": BETA}
    rounds, size, good = 10, 12, 0.05

    def net() -> Run:
        answer = NetMechanism(queries, size=size).release(world.curator(pure)).output.answer(queries) / n
        return answer - truth, net_bound(k, cells=cells, size=size, rows=n, epsilon=epsilon, beta=BETA)

    def laplace() -> Run:
        answer = LaplaceAnswers(queries, aim="max").release(world.curator(pure)).output.values / n
        return answer - truth, calibration.laplace_bound(k, **each)

    def composed() -> Run:
        answer = LaplaceAnswers(queries, aim="max").release(world.curator(approx)).output.values / n
        return answer - truth, calibration.laplace_bound(k, **each, delta=DELTA)

    def gaussian() -> Run:
        answer = GaussianAnswers(queries, aim="max").release(world.curator(approx)).output.values / n
        return answer - truth, calibration.gaussian_bound(k, **each, delta=DELTA)

    def fourier() -> Run:
        release = FourierMarginals(tables, law=NoiseLaw.LAPLACE).release(world.curator(pure))
        return release.output.answer(tables) / n - world.truth(tables), fourier_bound(
            tables, epsilon=epsilon, beta=BETA
        )[0] / n

    def mwem_paper() -> Run:
        mechanism = MWEM(queries, rounds=rounds, replay=0, average=True)
        answer = mechanism.release(world.curator(pure)).output.answer(queries) / n
        return answer - truth, mwem_bound(k, cells=cells, rows=n, rounds=rounds, epsilon=epsilon) / n

    def mwem() -> Run:
        answer = MWEM(queries, rounds=rounds).release(world.curator(pure)).output.answer(queries) / n
        return answer - truth, mwem_bound(k, cells=cells, rows=n, rounds=rounds, epsilon=epsilon) / n

    def online(make: Callable[..., PrivateMultiplicativeWeights | MedianMechanism], best: object) -> Run:
        error, updates, threshold = best  # type: ignore[misc]
        settings = {"max_updates": updates, "threshold": threshold} if math.isfinite(error) else {}
        session = make(world.domain, **settings).open(world.curator(pure))
        answer = np.array([float(one) for one in session.ask(queries)]) / n
        return answer - truth, error / n if math.isfinite(error) else None

    def pmw() -> Run:
        best = pmw_bound(k, cells=cells, rows=n, epsilon=epsilon, beta=BETA)
        return online(lambda domain, **s: PrivateMultiplicativeWeights(domain, replay=0, **s), best)

    def median() -> Run:
        best = median_bound(k, cells=cells, size=size, rows=n, epsilon=epsilon, beta=BETA)
        return online(lambda domain, **s: MedianMechanism(domain, size=size, **s), best)

    def practical(session: OnlineSession) -> Run:
        return np.array([float(one) for one in session.ask(queries)]) / n - truth, None

    def pmw_practical() -> Run:
        mechanism = PrivateMultiplicativeWeights(world.domain, max_updates=12, queries=k)
        return practical(mechanism.open(world.curator(pure)))

    def median_practical() -> Run:
        mechanism = MedianMechanism(world.domain, size=size, threshold=n / 10)  # finer than the net is pointless
        return practical(mechanism.open(world.curator(pure)))

    def boosting() -> Run:
        mechanism = PrivateBoosting(queries, rounds=5, drawn=24, accuracy=good)
        answer = mechanism.release(world.curator(approx), random_state=0).output.answer(queries) / n
        return answer - truth, boosting_bound(accuracy=good)

    return {
        "net mechanism (m = 12)": net,
        "Laplace, pure": laplace,
        "Laplace, composed": composed,
        "Gaussian": gaussian,
        "Fourier marginals, Laplace": fourier,
        "MWEM, paper's form": mwem_paper,
        "MWEM, replay": mwem,
        "private multiplicative weights": pmw,
        "median mechanism (m = 12)": median,
        "private multiplicative weights, practical": pmw_practical,
        "median mechanism, practical": median_practical,
        "private boosting": boosting,
    }


def small(*, tiny: bool, repeat: int) -> Iterator[dict[str, object]]:
    world = World.of(3, rows=4000 if tiny else None)
    queries = predicates(world.domain, 40 if tiny else 200)
    for epsilon in (1.0,) if tiny else EPSILONS:
        for name, run in small_runs(world, queries, epsilon).items():
            for _ in range(repeat):
                begin = time.perf_counter()
                errors, bound = run()
                yield {
                    "part": "small", "mechanism": name, "epsilon": epsilon, "rows": world.n, "queries": queries.k,
                    "error": float(np.abs(errors).max()), "bound": bound,
                    "within": bound is None or bool(np.abs(errors).max() <= bound),
                    "seconds": round(time.perf_counter() - begin, 3),
                }  # fmt: skip


def adult_part(*, tiny: bool, repeat: int) -> Iterator[dict[str, object]]:
    for d in (6,) if tiny else (8, 12):
        world = World.of(d, rows=4000 if tiny else None)
        workload = Marginals(world.domain, all_cliques(world.domain, 3))
        truth = world.truth(workload)
        pure, approx = PureDP(1.0), ApproxDP(1.0, DELTA)
        rounds = 5 if tiny else 20
        makers = {
            "Laplace on every table": (pure, LaplaceAnswers(workload)),
            "Gaussian on every table": (approx, GaussianAnswers(workload)),
            "MWEM, paper's update, average": (pure, MWEM(workload, rounds=rounds, replay=0, average=True)),
            "MWEM, paper's update, last": (pure, MWEM(workload, rounds=rounds, replay=0)),
            "MWEM, replay, average": (pure, MWEM(workload, rounds=rounds, average=True)),
            "MWEM, replay, last": (pure, MWEM(workload, rounds=rounds)),
            "MWEM, replay, last, (eps, delta)": (approx, MWEM(workload, rounds=rounds)),
            "Fourier, Laplace": (pure, FourierMarginals(workload, law=NoiseLaw.LAPLACE)),
            "Fourier, K-norm": (pure, FourierMarginals(workload)),
            "Fourier, Gaussian": (approx, FourierMarginals(workload)),
            "Fourier, K-norm, mirror descent": (pure, FourierMarginals(workload, solver="mw")),
        }
        for name, (loss, mechanism) in makers.items():
            for _ in range(repeat):
                begin = time.perf_counter()
                release = mechanism.release(world.curator(loss))
                errors = release.output.answer(workload) / world.n - truth
                yield {
                    "part": "adult", "mechanism": name, "columns": d, "queries": workload.k, "loss": str(loss),
                    "error": float(np.abs(errors).max()), "mean": float(np.abs(errors).mean()),
                    "variation": float(np.mean([np.abs(part).sum() / 2 for part in workload.split(errors)])),
                    "seconds": round(time.perf_counter() - begin, 2),
                }  # fmt: skip


def plot(results: Path, folder: Path) -> None:
    """One picture per mechanism: measured errors and the bound against epsilon; and one with all mechanisms."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    errors: dict[str, dict[float, list[float]]] = defaultdict(lambda: defaultdict(list))
    bounds: dict[str, dict[float, float]] = defaultdict(dict)
    for line in results.read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        if record["part"] == "small":
            errors[record["mechanism"]][record["epsilon"]].append(record["error"])
            if record["bound"] is not None:
                bounds[record["mechanism"]][record["epsilon"]] = record["bound"]
    folder.mkdir(parents=True, exist_ok=True)
    groups = {
        "net-mechanism": ["net mechanism (m = 12)"],
        "direct-answers": ["Laplace, pure", "Laplace, composed", "Gaussian"],
        "fourier-marginals": ["Fourier marginals, Laplace"],
        "mwem": ["MWEM, paper's form", "MWEM, replay"],
        "private-multiplicative-weights": [
            "private multiplicative weights",
            "private multiplicative weights, practical",
        ],
        "median-and-boosting": ["median mechanism (m = 12)", "median mechanism, practical", "private boosting"],
        "baselines": list(errors),
    }
    for file, names in groups.items():
        every = file == "baselines"
        figure, axes = plt.subplots(figsize=(8, 3.8) if every else (4.5, 3.2), layout="constrained")
        for color, name in enumerate(names):
            at = sorted(errors[name])
            marker = "o" if color < 10 else "s"  # colours repeat after ten
            medians = [np.median(errors[name][e]) for e in at]
            axes.plot(at, medians, f"{marker}-", color=f"C{color % 10}", ms=4, label=name)
            if not every:
                known = sorted(bounds[name])
                if known:
                    axes.plot(known, [bounds[name][e] for e in known], "--", color=f"C{color}", label=f"{name}: bound")
        axes.set(xscale="log", yscale="log", xlabel="epsilon", ylabel="largest error of an average")
        axes.legend(fontsize=6, **({"loc": "center left", "bbox_to_anchor": (1, 0.5)} if every else {}))
        figure.savefig(folder / f"{file}.png", dpi=80)
        plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--part", choices=["small", "adult", "both"], default="both")
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--plot", nargs=2, type=Path, metavar=("RESULTS", "FOLDER"))
    options = parser.parse_args()
    if options.plot:
        plot(*options.plot)
        return
    parts = {"small": small, "adult": adult_part}
    lines = []
    for name in parts if options.part == "both" else [options.part]:
        for record in parts[name](tiny=options.tiny, repeat=options.repeat):
            lines.append(json.dumps(record))
            print(lines[-1], flush=True)
    if options.out:
        options.out.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
