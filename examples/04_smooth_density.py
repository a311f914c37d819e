"""Release a two-dimensional density under differential privacy, and look at the error.

A noisy trigonometric summary answers "how much mass is near this point" for every point at once: one Gaussian kernel on
each point of a picture.  Run it, then open smooth_density.png.
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import synthdp as sd

SIZE, SIGMA = 41, 0.3


def private_table(rows: int = 20_000) -> pd.DataFrame:
    """Two clusters and a ring, as places of something sensitive."""
    rng = np.random.default_rng(7)
    angle = rng.uniform(0, 2 * np.pi, rows // 2)
    ring = 0.75 * np.column_stack([np.cos(angle), np.sin(angle)]) + rng.normal(0, 0.05, (rows // 2, 2))
    clusters = [rng.normal(middle, 0.12, (rows // 4, 2)) for middle in ((0.3, 0.2), (-0.3, -0.3))]
    return pd.DataFrame(np.clip(np.vstack([ring, *clusters]), -1, 1), columns=["east", "north"])


def main(picture: Path) -> None:
    table = private_table()
    schema = sd.Schema({"east": sd.Continuous(-1, 1), "north": sd.Continuous(-1, 1)})
    curator = sd.Curator(table, schema=schema, budget=sd.PureDP(1.0), neighbors="replace_one")
    release = sd.SmoothSummary(smoothness=4).release(curator)
    print(release)

    axis = np.linspace(-1, 1, SIZE)
    points = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    kernels = sd.GaussianKernels.at(points, sigma=SIGMA)
    answer, truth = release.output.answer(kernels), kernels.averages(table.to_numpy())
    error = answer.estimate - truth
    print(f"largest error {np.abs(error).max():.4f} of a density up to {truth.max():.3f}")
    print(f"error bars up to {answer.stderr.max():.4f}, truncation up to {answer.truncation.max():.4f}")

    plt.switch_backend("Agg")
    figure, axes = plt.subplots(1, 3, figsize=(13, 4), layout="constrained")
    reach = np.abs(error).max()
    densities = {"private density": truth, "released, ε = 1": answer.estimate}
    for ax, (title, values) in zip(axes, [*densities.items(), ("error", error)], strict=True):
        low, high, colours = (-reach, reach, "RdBu") if title == "error" else (0, truth.max(), "viridis")
        grid = values.reshape(SIZE, SIZE)
        image = ax.imshow(grid, origin="lower", extent=(-1, 1, -1, 1), cmap=colours, vmin=low, vmax=high)
        ax.set(title=title, xlabel="east", ylabel="north")
        figure.colorbar(image, ax=ax, shrink=0.8)
    figure.savefig(picture, dpi=110)
    print(f"wrote {picture.name}")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path("smooth_density.png"))
