"""dpmm's pipelines: MST, AIM and PrivBayes, each with the library's own PrivTree bins for numbers.

A tenth of epsilon goes to the bins, as in the library's own example.  The number of rows is taken as public, as the
library takes it.
"""

from __future__ import annotations

from typing import Any

import pandas as pd
from dpmm.pipelines import AIMPipeline, MSTPipeline, PrivBayesPipeline
from protocol import Plan, Table, serve

PIPELINES = {"AIM": AIMPipeline, "MST": MSTPipeline, "PrivBayes": PrivBayesPipeline}
BINS_SHARE = 0.1


def release(plan: Plan, table: Table) -> dict[str, Any]:
    """Fit a pipeline and generate as many rows as there were."""
    columns, domain = {}, {}
    for column in plan["columns"]:
        name, values = column["name"], table[column["name"]]
        if column["form"] == "cells":
            levels = list(range(column["cells"]))
            columns[name] = pd.Series(pd.Categorical(values, categories=levels))
            domain[name] = {"categories": levels}
        else:
            whole = column["whole"] and values.size and not pd.isna(values).any()
            columns[name] = pd.Series(values.astype("int64") if whole else values)
            domain[name] = {"lower": column["lower"], "upper": column["upper"]}
    numbers = any(column["form"] == "numbers" for column in plan["columns"])
    share = BINS_SHARE if numbers else 0.0
    pipeline = PIPELINES[plan["method"]](
        epsilon=plan["epsilon"] * (1 - share),
        delta=plan["delta"],
        proc_epsilon=plan["epsilon"] * share,
        n_jobs=1,
        **plan["settings"],
    )
    pipeline.fit(pd.DataFrame(columns), domain, random_state=plan["seed"])
    rows = len(next(iter(table.values())))
    return {name: values.tolist() for name, values in pipeline.generate(n_records=rows).items()}


if __name__ == "__main__":
    serve(release, packages=["dpmm", "opendp"])
