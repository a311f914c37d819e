"""The commands `synthdp doctor` and `synthdp audit`: tests of this installation."""

from __future__ import annotations

import json
import platform
from dataclasses import asdict
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import click

from synthdp.errors import DataError
from synthdp.registered import COLUMN_TYPES, MECHANISMS, SOURCES

PACKAGES = ("synthdp", "numpy", "scipy", "pandas", "scikit-learn", "cvxpy", "highspy", "opendp", "dp-accounting")
"""Packages whose versions `synthdp doctor` shows: synthdp, and packages that read rows, draw noise, add up losses or fit."""


@click.command()
@click.option(
    "--folder", type=click.Path(path_type=Path),
    help="Where ledgers lie: who may write it, its file system and a ledger in it are tested too.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print JSON for machines.")
def doctor(folder: Path | None, as_json: bool) -> None:
    """Show versions and solvers, and test the noise and the security of this installation.

    Tested: the noise against its laws, the entropy source, OpenDP's version against its known faults and the page's
    address; with --folder also who may write it, and whether a ledger lasts there.

    \b
    Example:
      synthdp doctor --folder /srv/ledgers --json
    """
    from synthdp.cli.security_checks import noise_selftest, security_checks
    from synthdp.fit.explicit.registry import SOLVERS
    from synthdp.privacy.noise import version_of

    versions = {name: version_of(name) for name in PACKAGES}
    in_use = {
        "lp": f"multiplicative weights, mixed by HiGHS {versions['highspy']} through CVXPY {versions['cvxpy']}",
        "sifting": "the bare linear program, by the same HiGHS",
        "mw": "multiplicative weights, of synthdp itself",
        "maxent": "maximum entropy on a junction tree, of synthdp itself; what adaptive marginals take",
    }
    noise, security = noise_selftest(), security_checks(folder, opendp=versions["opendp"])
    others = {
        group: sorted(one.name for one in entry_points(group=group)) for group in (MECHANISMS, SOURCES, COLUMN_TYPES)
    }
    others = {group: names for group, names in others.items() if names}
    if as_json:
        click.echo(
            json.dumps(
                {
                    "python": platform.python_version(),
                    "versions": versions,
                    "solvers": list(SOLVERS),
                    "solver_in_use": in_use,
                    "noise": [{"check": c.name, "passed": c.passed, "detail": c.detail} for c in noise],
                    "security": [{"check": c.name, "passed": c.passed, "detail": c.detail} for c in security],
                    "extensions": others,
                }
            )
        )
    else:
        click.echo(f"python {platform.python_version()} on {platform.system()} {platform.machine()}")
        for name, number in versions.items():
            click.echo(f"{name} {number}")
        for name, program in in_use.items():
            click.echo(f"solver {name}: {program}")
        for group, names in others.items():
            click.echo(f"of other packages, {group}: {', '.join(names)}")
        for title, checks in (("noise", noise), ("security", security)):
            for check in checks:
                click.echo(f"{title}: {'ok  ' if check.passed else 'FAIL'} {check.name}: {check.detail}")
    if not all(check.passed for check in noise):
        raise DataError(
            "the noise of this installation has a wrong distribution: do not release with it, install "
            "the packages anew, and run "
            "synthdp doctor again"
        )
    if failed := [check.name for check in security if not check.passed]:
        raise DataError(f"this installation fails these checks: {', '.join(failed)}; the lines above say why")


@click.command()
@click.option("--mechanism", "names", multiple=True, help="Which to audit; repeatable. Default: all.")
@click.option("--epsilon", type=float, default=1.0, show_default=True, help="What each release claims.")
@click.option("--delta", type=float, default=1e-6, show_default=True, help="What each release claims.")
@click.option("--runs", type=int, default=200, show_default=True, help="Releases of each of two neighbouring tables.")
@click.option("--confidence", type=float, default=0.999, show_default=True, help="Of all bounds together.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for machines.")
def audit(names: tuple[str, ...], epsilon: float, delta: float, runs: int, confidence: float, as_json: bool) -> None:
    """Try to show that this installation is less private than it claims; exit code 1 if it can be shown.

    Releases simulated tables only.  A bound within its claim is not a proof; a bound above it is.  With 1000 runs a true
    epsilon of 1.25 is caught 95 % of the time at a claim of 1; with 200 runs, gross errors only.  Runs that are too few to
    contradict the claim, whatever they show, are refused.

    \b
    Example:
      synthdp audit --runs 1000 --json
    """
    from synthdp.audit import audit_build

    bounds = audit_build(epsilon=epsilon, delta=delta, runs=runs, confidence=confidence, names=names)
    if as_json:
        click.echo(json.dumps([_document(bound) for bound in bounds], indent=1))
    else:
        for bound in bounds:
            click.echo(str(bound))
    if not all(bound.holds for bound in bounds):
        raise click.exceptions.Exit(1)


def _document(bound: Any) -> dict[str, Any]:
    """Return an audit's result as a JSON document."""
    document = asdict(bound)
    return document | {"neighbors": str(bound.neighbors), "claimed": asdict(bound.claimed), "holds": bound.holds}
