"""OpenDP's contingency tables (``opendp[mbi]``): AIM and MST.

All columns as cells, their numbers given as ``keys``.  Both (epsilon, delta) go into one zCDP budget by OpenDP's own
conversion; since all keys are known, no delta is needed for finding them.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import opendp.prelude as dp
import polars as pl
from mbi_sampling import repaired
from protocol import Plan, Table, serve


def zcdp_budget(epsilon: float, delta: float) -> float:
    """The largest rho whose zCDP implies (epsilon, delta), found as the library finds it for a Gaussian."""
    space = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)

    def converted(scale: float) -> Any:
        return dp.c.make_fix_delta(dp.c.make_zCDP_to_approxDP(dp.m.make_gaussian(*space, scale)), delta=delta)

    scale = dp.binary_search_param(converted, d_in=1.0, d_out=(epsilon, delta))
    return float(dp.m.make_gaussian(*space, scale).map(1.0))


def spendable(rho: float, selections: int) -> float:
    """The largest budget found just below ``rho`` whose parts, as MST divides it, do not exceed it by rounding.

    OpenDP 0.16 divides MST's share for selecting into equal parts and adds them up again with rounding upwards; for most
    budgets the sum is a few units in the last place above the share, and the release fails ("insufficient budget for
    query").  No data is read here.
    """
    for i in range(100_000):
        candidate = rho * (1 - i * 1e-9)
        pairs = _before(candidate - candidate * 0.5, 2)
        share = _before(pairs - pairs * 0.9, 2)
        part, total = _before(share / selections, 1), 0.0
        for _ in range(selections):
            total = _sum_upwards(total, part)
        if total <= share:
            return candidate
    return rho


def _before(x: float, steps: int) -> float:
    for _ in range(steps):
        x = math.nextafter(x, -math.inf)
    return x


def _sum_upwards(a: float, b: float) -> float:
    total = a + b
    return math.nextafter(total, math.inf) if Fraction(total) < Fraction(a) + Fraction(b) else total


def release(plan: Plan, table: Table) -> dict[str, Any]:
    """Release a contingency table and draw as many rows as it thinks there are."""
    dp.enable_features("contrib", "floating-point")
    algorithm = {"AIM": dp.mbi.AIM, "MST": dp.mbi.MST}[plan["method"]](**plan["settings"])
    rho = zcdp_budget(plan["epsilon"], plan["delta"])
    names = {column["name"]: f"c{i}" for i, column in enumerate(plan["columns"])}
    context = dp.Context.compositor(
        data=pl.DataFrame({names[name]: values for name, values in table.items()}).lazy(),
        privacy_unit=dp.unit_of(contributions=1),
        privacy_loss=dp.loss_of(rho=rho),
    )
    keys = {names[column["name"]]: list(range(column["cells"])) for column in plan["columns"]}
    most = spendable(rho, len(names) - 1) if plan["method"] == "MST" else rho
    query = context.query(rho=most).select(*names.values()).contingency_table(keys=keys, algorithm=algorithm)
    released = query.release()
    if plan["repaired"]:
        released.model = repaired(released.model)
    synthetic = released.synthesize()
    return {name: synthetic[short].to_list() for name, short in names.items()}


if __name__ == "__main__":
    serve(release, packages=["opendp", "mbi", "jax"])
