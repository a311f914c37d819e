"""The published audit: every mechanism with linear measurements, both neighbours, and a broken build above its claim.

python tests/audit/report.py --runs 300 --write docs/audit/report.md
"""

from __future__ import annotations

import argparse
import platform
import sys
import time
from importlib.metadata import version
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "tests" / "audit")]

import test_audit as audits  # noqa: E402

from synthdp.audit import Bound  # noqa: E402
from synthdp.privacy import noise  # noqa: E402

CONFIDENCE = 0.95


def broken(runs: int) -> list[Bound]:
    """Mechanisms whose noise is a sixteenth of what it should be."""
    with pytest.MonkeyPatch.context() as patch:
        for law in ("discrete_laplace", "discrete_gaussian", "linf_knorm"):
            original = getattr(noise, law)

            def quieter(values, *, scale, original=original):
                return original(values, scale=max(2**-9, scale / 16))

            patch.setattr(noise, law, quieter)
        return [
            audits.world_audit(name, "add_remove", runs, confidence=CONFIDENCE)
            for name in ("LaplaceAnswers", "GaussianAnswers")
        ]


def row(bound: Bound, name: str) -> str:
    verdict = "yes" if bound.holds else "**no**"
    return (
        f"| {name} | {bound.neighbors} | {bound.claimed.epsilon:g} | {bound.epsilon:.3f} | {bound.runs} | {verdict} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--deep", type=int, default=2000)
    parser.add_argument("--write", type=Path, required=True)
    arguments = parser.parse_args()
    started = time.monotonic()
    sound = [
        audits.world_audit(name, relation, arguments.runs, confidence=CONFIDENCE)
        for name in audits.MEASURED
        for relation in audits.RELATIONS
    ]
    deep = audits.direct(arguments.deep)[0]
    verdict = "yes" if deep <= 1 else "**no**"
    options = f"--runs {arguments.runs} --deep {arguments.deep} --write docs/audit/report.md"
    build = f"Python {platform.python_version()}, opendp {version('opendp')}, numpy {version('numpy')}"
    lines = [
        "# Statistical audit",
        "",
        f"Made by `python tests/audit/report.py {options}`, {build}.",
        "",
        "Each mechanism released two neighbouring tables of 30 to 60 rows, each `runs` times, at (1, 1e-6).  The score",
        "is the matched filter of all its noisy answers; a quarter of the runs chose the event, the others gave the lower",
        "bound on epsilon at confidence 0.95 each (Clopper and Pearson).  A bound below the claim proves nothing; one above",
        "it proves the claim wrong.  With so few runs only gross errors would be seen: the exact tests (sensitivities,",
        "laws, frozen-noise traces) carry the guarantee, `pytest -m slow tests/audit` has 20 000 a side of one count.",
        "",
        "| mechanism | neighbours | claimed ε | lower bound | runs a side | within the claim |",
        "|---|---|---|---|---|---|",
        f"| one count, Laplace noise | add_remove | 1 | {deep:.3f} | {arguments.deep} | {verdict} |",
        *(row(bound, bound.name) for bound in sound),
        *(row(bound, f"{bound.name}, **broken**: a sixteenth of the noise") for bound in broken(arguments.runs)),
        "",
        f"Took {time.monotonic() - started:.0f} s.",
    ]
    arguments.write.parent.mkdir(parents=True, exist_ok=True)
    arguments.write.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
