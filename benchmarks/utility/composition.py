"""What k Laplace queries cost together, by every rule of composition: the tables of docs/mechanisms/composition.md.

    python benchmarks/utility/composition.py [--tiny] [--plot docs/mechanisms/images/composition.png]

The scale b of the Laplace noise (sensitivity 1) at which k queries cost (1, delta): basic composition asks for b = k.
The accuracy table turns it into the largest error of k averages over n rows, by each law of noise.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from synthdp.privacy import calibration, composition

DELTA = 1e-6
SHOWN = ("basic", "lecture", "drv", "optimal", "zcdp", "rdp", "pld")


def scale(k: int, rule: str) -> float:
    return 1 / composition.split(1.0, k, delta=DELTA, rule=rule)


def rules_table(counts: list[int]) -> list[str]:
    lines = ["| k | " + " | ".join(SHOWN) + " |", "|---" * (len(SHOWN) + 1) + "|"]
    lines += [f"| {k} | " + " | ".join(f"{scale(k, rule):.4g}" for rule in SHOWN) + " |" for k in counts]
    return lines


def accuracy_table(counts: list[int], *, rows: int = 10_000) -> list[str]:
    each = {"sensitivity": 1 / rows, "epsilon": 1.0, "beta": 0.05}
    names = ["Laplace, lecture's bound", "Laplace, exact", "K-norm, exact"]
    names += ["Laplace (ε, δ), lecture's bound", "Laplace (ε, δ), exact", "Gaussian, exact"]
    lines = ["| k | " + " | ".join(names) + " |", "|---" * (len(names) + 1) + "|"]
    for k in counts:
        values = [
            calibration.laplace_bound(k, **each),
            calibration.laplace(k, **each),
            calibration.linf_knorm(k, **each),
            calibration.laplace_bound(k, **each, delta=DELTA),
            calibration.laplace(k, **each, delta=DELTA),
            calibration.gaussian(k, **each, delta=DELTA),
        ]
        lines.append(f"| {k} | " + " | ".join(f"{value:.3g}" for value in values) + " |")
    return lines


def plot(path: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    counts = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000]
    figure, axes = plt.subplots(figsize=(5.5, 3.6), layout="constrained")
    for rule in SHOWN:
        axes.plot(counts, [scale(k, rule) for k in counts], "o-", ms=3, label=rule)
    axes.set(xscale="log", yscale="log", xlabel="queries", ylabel="Laplace scale for (1, 1e-6)")
    axes.legend(fontsize=7)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=80)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--plot", type=Path)
    options = parser.parse_args()
    counts = [10] if options.tiny else [10, 100, 1000]
    print("\n".join([*rules_table(counts), "", *accuracy_table(counts)]))
    if options.plot:
        plot(options.plot)


if __name__ == "__main__":
    main()
