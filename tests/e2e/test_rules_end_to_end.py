"""Rules between columns, from a table with rows that the schema does not foresee to a synthetic one."""

import numpy as np
import pandas as pd
import pytest

from synthdp import Categorical, Forbidden, Integer, Schema, SyntheticRelease


@pytest.mark.parametrize("epsilon", [0.2, 2.0])
@pytest.mark.parametrize("mechanism", ["adaptive_marginals", "l1_fit"])
def test_unforeseen_values_are_never_released_though_a_rule_keeps_levels_apart(epsilon: float, mechanism: str) -> None:
    """Levels that a rule names are cells of their own, and so is what is left over: "other", which no row may be in."""
    rng = np.random.default_rng(2)
    table = pd.DataFrame({"age": rng.integers(0, 90, 4000), "city": rng.choice(["a", "b", "c", "elsewhere"], 4000)})
    rule = Forbidden({"age": (0, 15), "city": ["b", "c"]})
    schema = Schema({"age": Integer(0, 89), "city": Categorical(["a", "b", "c"])}, constraints=[rule])
    made = SyntheticRelease(schema=schema, epsilon=epsilon, mechanism=mechanism).fit_transform(table)
    assert set(made["city"]) <= {"a", "b", "c"}
    assert not ((made["age"] <= 15) & made["city"].isin(["b", "c"])).any()
