"""What Spark encodes by SQL is, integer for integer, what the encoder makes of the values, whatever they are."""

from __future__ import annotations

import datetime as dt
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from encoding_cases import CASES

from synthdp import Schema
from synthdp.curator.private_table import PrivateTable
from synthdp.domain.domain import domain_of
from synthdp.domain.encoder import encode
from synthdp.privacy.neighbors import Adjacency
from synthdp.queries.marginals import Marginals, one_ways
from synthdp.tables.columns.arrow import read
from synthdp.tables.dataframe import FrameSource

pyspark = pytest.importorskip(
    "pyspark", reason="Spark is not installed: pip install 'synthdp[spark]'; it needs Java 17"
)

pytestmark = pytest.mark.slow

DAYS = [dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(1999, 12, 31), dt.date(2000, 1, 1), dt.date(2030, 1, 1),
        dt.date(2030, 1, 2), dt.date(1969, 12, 31), dt.date(2020, 1, 1), None]  # fmt: skip
FAR_DAYS = pa.array([-(2**31) + 1, 2**31 - 1, -719_529, 2_932_897, 0, None], pa.int32()).cast(pa.date32())


def fitting(values: list[Any], bits: int) -> list[Any]:
    return [v for v in values if v is None or -(2 ** (bits - 1)) <= v < 2 ** (bits - 1)]


def columns() -> dict[str, tuple[Schema, pa.Array]]:
    """Arrays of each type that Spark may encode, with the declarations that they are read as."""
    whole = CASES["whole"][1][1][1]
    real = [v for _, values in CASES["real"][1] for v in values]
    text, moment = CASES["text"], {k: v for k, v in CASES["moment"][0].items() if k != "micros"}
    found: dict[str, tuple[dict[str, Any], pa.Array]] = {
        **{
            f"int{bits}": (CASES["whole"][0], pa.array(fitting(whole, bits), f"int{bits}")) for bits in (8, 16, 32, 64)
        },
        "double": (CASES["real"][0], pa.array(real, pa.float64())),
        "float": (CASES["real"][0], pa.array(np.array([math.nan if v is None else v for v in real], np.float64)).cast(
            pa.float32(), safe=False)),
        "text": (text[0], pa.array([*text[1][0][1], "a\x00", "'", "${x}", "\\u0061", '"', "`", "a\n", "\U0001f600"])),
        "truth": (CASES["truth"][0], pa.array([True, False, None])),
        "day": (moment, pa.array(DAYS, pa.date32())),
        "far day": (moment, FAR_DAYS),
    }  # fmt: skip
    return {name: (Schema({**kinds}), array) for name, (kinds, array) in found.items()}


@pytest.fixture(scope="module")
def spark():
    from pyspark.sql import SparkSession

    session = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", list(columns()))
def test_spark_encodes_every_value_as_the_encoder_does(spark: Any, case: str) -> None:
    from synthdp.tables.sources.spark import SparkSource, _prepared

    schema, array = columns()[case]
    frame = spark.createDataFrame(pa.table({"x": array})).selectExpr(*(f"x AS `{name}`" for name in schema))
    prepared, form = _prepared(frame, schema, None)
    assert form.values == []  # nothing comes as values
    found = [form.indices(batch) for batch in prepared.toArrow().to_batches()]
    for name, column in schema.items():
        np.testing.assert_array_equal(
            np.concatenate([indices[name] for indices in found]), encode(column, read(array, column)), err_msg=name
        )
    source = PrivateTable(SparkSource(frame), schema, Adjacency())
    plain = PrivateTable(FrameSource(pa.table(dict.fromkeys(schema, array))), schema, Adjacency())
    statistic = one_ways(domain_of(schema, bins=7))
    np.testing.assert_array_equal(source.exact(statistic), plain.exact(statistic))
    source.close()


@pytest.mark.filterwarnings("ignore")
def test_columns_that_spark_cannot_encode_exactly_are_encoded_beside_those_that_it_can(spark: Any) -> None:
    from synthdp import Categorical, Datetime, Decimal, Integer
    from synthdp.tables.sources.spark import SparkSource

    table = pa.table(
        {
            "n": pa.array([i % 12 for i in range(500)]),
            "paid": pa.array([i % 97 for i in range(500)]).cast(pa.decimal128(21, 2)),
            "at": pa.array([i * 10**12 for i in range(500)], pa.timestamp("us", "UTC")),
            "t": pa.array([f"t{i % 3}" for i in range(500)]),
            "who": pa.array([f"p{i % 60}" for i in range(500)]),
        }
    )
    schema = Schema(
        {
            "t": Categorical(["t0", "t1"]),
            "paid": Decimal(0, 99, decimals=2),
            "n": Integer(0, 9),
            "at": Datetime("1970-01-01", "1985-01-01", resolution="D"),
        }
    )
    statistic = Marginals(domain_of(schema, bins=6), ((0, 1, 2, 3), (2,)))
    for adjacency in (Adjacency(), Adjacency(unit="who", rows=3)):
        found = PrivateTable(SparkSource(spark.createDataFrame(table).repartition(3)), schema, adjacency)
        plain = PrivateTable(FrameSource(table), schema, adjacency)
        np.testing.assert_array_equal(found.exact(statistic), plain.exact(statistic))
        found.close()


@pytest.mark.filterwarnings("ignore")
def test_the_sessions_settings_are_as_they_were(spark: Any) -> None:
    from synthdp.tables.sources.spark import SparkSource

    name, schema = "spark.sql.codegen.hugeMethodLimit", columns()["truth"][0]
    for limit in (12_345, 5000):
        spark.conf.set(name, str(limit))
        frame = spark.createDataFrame(pa.table(dict.fromkeys(schema, pa.array([True, None]))))
        table = PrivateTable(SparkSource(frame), schema, Adjacency())
        table.exact(one_ways(domain_of(schema)))
        table.close()
        assert spark.conf.get(name) == str(limit)
