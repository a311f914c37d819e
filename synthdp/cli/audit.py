"""The command ``synthdp audit``: a statistical test of this installation, for builds with other noise libraries."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import click


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
    epsilon of 1.25 is caught 95 % of the time at a claim of 1; with 200 runs, gross errors only.

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
    document = asdict(bound)
    return document | {"neighbors": str(bound.neighbors), "claimed": asdict(bound.claimed), "holds": bound.holds}
