"""Which part of a release of a panel spoils it: releases without the noise of one step (not private; a benchmark).

    python benchmarks/utility/panel_parts.py --quiet one-way --quiet scores [--panel star] [--epsilon 1] [--seeds 3]
        [--shared ../shared] [--out lines.jsonl]

The release is made from exact statistics with noise that has a seed, so that runs differ in one thing.  Each ``--quiet``
names a step of the receipt, or a part of its name, that gets no noise in a run of its own; the first run has all noise.
Steps are: "one-way marginals of persons", "lag-one marginals of persons", "scores of two-attribute marginals of persons",
"two-attribute marginals of persons".  Each line has the judge's metrics (0 is best), as of ``star.py``, and the greatest
error of a correlation of a number with that of the record before.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from json_lines import tell
from star import Panel, panel_options

import synthdp as sd
from synthdp.curator import Curator
from synthdp.domain.histories import Layout
from synthdp.measurements import Measurements
from synthdp.mechanisms.related.choosing import unusual
from synthdp.mechanisms.related.related_tables import RelatedTables
from synthdp.privacy.accounting import gdp_from_approx
from synthdp.privacy.calibration import calibrate
from synthdp.queries.person_tables import PersonTables
from synthdp.queries.persons import Persons

DELTA = 1e-9


def persons_of(panel: Panel) -> Persons:
    """The private persons, as a statistic sees them."""
    seen: list[np.ndarray] = []

    class Seeing(PersonTables):
        def sums(self, codes: Any) -> Any:
            seen.append(np.array(codes))
            return super().sums(codes)

    with Curator(panel.tables, schema=panel.schema, budget=sd.GaussianDP(1.0)) as curator:
        tables = tuple(unusual(curator.layout))
        curator.measure(Seeing(curator.layout, tables, (1,) * len(tables)))
    layout = Layout(panel.schema)
    return Persons.of_records(layout, np.concatenate(seen))


@dataclass
class Exact:
    """Stands for a curator: exact statistics, and noise with a seed but for some steps."""

    curator: Curator
    persons: Persons
    rng: np.random.Generator
    quiet: str | None = None
    asked: list[str] = field(default_factory=list)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.curator, name)

    def open_account(self, loss: Any) -> Exact:  # noqa: ARG002 - as a curator has it
        """Nothing is spent here."""
        return self

    def measure(self, queries: Any, *, spend: Any, step: str) -> Measurements:
        """The answer that a curator would give, but for the source of the noise."""
        plan = calibrate(self.curator.adjacency.sensitivity(queries), spend, k=queries.k)
        tables = queries if isinstance(queries, PersonTables) else queries.queries
        sums = queries.finish(tables.sums_of(self.persons))
        noise = self.rng.normal(0, plan.noise.stddev, len(sums))
        noisy = plan.resolution * sums + (0 if self.quiet is not None and self.quiet in step else noise)
        self.asked.append(step)
        values = np.rint(noisy).astype(np.int64)
        return Measurements(queries=queries, values=values, resolution=plan.resolution, noise=plan.noise)


def main() -> None:
    """Release, judge, print."""
    quiet = ("--quiet", {"action": "append", "default": []})
    options, panel = panel_options(__doc__, quiet, epsilon=(1.0,))
    persons = persons_of(panel)
    for epsilon in options.epsilon:
        budget = sd.GaussianDP(gdp_from_approx(epsilon, DELTA))
        for seed in range(options.seeds):
            for part in (None, *options.quiet):
                with Curator(panel.tables, schema=panel.schema, budget=budget) as curator:
                    exact = Exact(curator, persons, np.random.default_rng(1000 + seed), part)
                    release = RelatedTables().release(exact, random_state=seed)
                if part is not None and not any(part in step for step in exact.asked):
                    raise SystemExit(f"no step has {part!r} in its name; there are: {', '.join(exact.asked)}")
                made = release.sample(random_state=seed)
                _, parts = panel.judge.judge(
                    *panel.judged, made["persons"], made["records"], panel.document, detail=True, task=False
                )
                name, worst = max(parts["autocorr"].items(), key=lambda one: one[1])
                line = {"panel": panel.name, "epsilon": epsilon, "seed": seed, "without_noise": part}
                line |= {"worst_number": name, "worst_autocorr": round(float(worst), 3)}
                tell(line | panel.judgement(made), options.out)


if __name__ == "__main__":
    main()
