"""``synthdp doctor``: what a security officer asks of an installation, tested here and now."""

from __future__ import annotations

import json
import platform
from importlib.metadata import entry_points
from pathlib import Path

import click

from synthdp.errors import DataError
from synthdp.extensions import COLUMN_TYPES, MECHANISMS, SOURCES

PACKAGES = ("synthdp", "numpy", "scipy", "pandas", "scikit-learn", "cvxpy", "highspy", "opendp", "dp-accounting")


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
    from synthdp.cli.security_checks import security_checks
    from synthdp.fit.explicit.registry import SOLVERS
    from synthdp.privacy.selftest import noise_selftest
    from synthdp.privacy.versions import version_of

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
        raise DataError("the noise of this installation does not follow its law: do not release with it")
    if failed := [check.name for check in security if not check.passed]:
        raise DataError(f"this installation fails: {', '.join(failed)}")
