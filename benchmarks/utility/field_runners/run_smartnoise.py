"""SmartNoise's synthesizers (``smartnoise-synth``): MST and AIM.

All columns as cells.  The table of public cells fits the library's transformer, so that no level is read off the rows;
the number of rows is taken as public, as the library takes it.
"""

from __future__ import annotations

import contextlib
import sys
from typing import Any

import numpy as np
import pandas as pd
from mbi_sampling import repaired
from protocol import Plan, Table, serve
from snsynth import Synthesizer
from snsynth.transform import LabelTransformer, TableTransformer


def public_transformer(plan: Plan) -> TableTransformer:
    """The cells of every column as labels, whatever the rows hold."""
    rows = max(column["cells"] for column in plan["columns"])
    public = pd.DataFrame({c["name"]: np.arange(rows) % c["cells"] for c in plan["columns"]})
    transformer = TableTransformer([LabelTransformer(nullable=False) for _ in plan["columns"]])
    transformer.fit(public)
    return transformer


def release(plan: Plan, table: Table) -> dict[str, Any]:
    """Fit a synthesizer and sample as many rows as there were."""
    data = pd.DataFrame(table)
    with contextlib.redirect_stdout(sys.stderr):
        synthesizer = Synthesizer.create(
            plan["method"].lower(), epsilon=plan["epsilon"], delta=plan["delta"], **plan["settings"]
        )
        synthesizer.fit(data, transformer=public_transformer(plan))
        if plan["repaired"]:
            synthesizer.synthesizer = repaired(synthesizer.synthesizer)
        synthetic = pd.DataFrame(synthesizer.sample(len(data)))
    synthetic.columns = list(table)
    return {name: values.astype(int).tolist() for name, values in synthetic.items()}


if __name__ == "__main__":
    serve(release, packages=["smartnoise-synth", "mbi", "jax"])
