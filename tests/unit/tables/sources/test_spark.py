"""Spark with two worker processes: the same integers as pandas, whatever the partitions and when a task is killed."""

from __future__ import annotations

import os
import signal
import sys
import time

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("pyspark", reason="Spark is not installed: pip install 'synthdp[spark]'; it needs Java 17")

from one_row_more import FEWEST, assert_one_row, some_pairs
from pyspark import TaskContext, cloudpickle
from pyspark.sql import SparkSession
from rule_models import model_of
from source_settings import SETTINGS, answer, curator_of, every_pair, sums, table as busy_table

from synthdp import AdaptiveMarginals, SyntheticRelease
from synthdp.curator import Curator
from synthdp.curator.private_table import PrivateTable
from synthdp.domain.domain import domain_of
from synthdp.errors import DataError, ParameterError
from synthdp.privacy import noise
from synthdp.privacy.loss import ZCDP, ApproxDP
from synthdp.privacy.neighbors import Adjacency
from synthdp.queries.distances import MarginalDistances
from synthdp.queries.linear import Total
from synthdp.queries.marginals import Marginals, all_cliques
from synthdp.schema.columns import Boolean, Categorical, Continuous, Datetime, Identifier, Integer, Weight
from synthdp.schema.schema import Schema
from synthdp.tables.dataframe import FrameSource
from synthdp.tables.sources.parquet import ParquetSource
from synthdp.tables.sources.spark import SparkSource, sample_on_spark

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
LANDING = pytest.mark.landing
"""One test of each promise; the others wait for the slow suite."""
SCHEMA = Schema(
    {
        "age": Integer(0, 90),
        "city": Categorical(["Oslo", "Rome"], nullable=True),
        "height": Continuous(0, 2, nullable=True),
        "member": Boolean(),
        "born": Datetime("2000-01-01", "2020-01-01", nullable=True),
    }
)


def table_of(rows: int = 3000, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    born = pd.Series(np.datetime64("1999-06-01", "us") + rng.integers(0, 8000, rows).astype("timedelta64[D]"))
    return pd.DataFrame(
        {
            "age": rng.integers(-5, 110, rows),
            "city": np.array(["Oslo", "Rome", None, "Paris"], object)[rng.integers(0, 4, rows)],
            "height": rng.normal(1.5, 0.4, rows),
            "member": rng.random(rows) < 0.3,
            "born": born.where(rng.random(rows) < 0.9),
            "person": np.array([*"abcdefghij", None], object)[rng.integers(0, 11, rows)],
        }
    )


@pytest.fixture(scope="module")
def spark():
    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers do not find the tests themselves
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    session = (
        SparkSession.builder.master("local-cluster[2,1,1024]")
        .config("spark.ui.enabled", "false")
        .config("spark.speculation", "true")
        .config("spark.speculation.quantile", "0.25")
        .config("spark.speculation.multiplier", "1.1")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.sql.execution.arrow.maxRecordsPerBatch", "200")
        .config("spark.executorEnv.PYTHONPATH", os.environ["PYTHONPATH"])
        .getOrCreate()
    )
    yield session
    session.stop()


def statistics():
    domain = domain_of(SCHEMA, bins=5)
    pairs = Marginals(domain, all_cliques(domain, 2))
    return [
        pairs,
        Marginals(domain_of(SCHEMA, bins=9), ((0, 2, 4),)),
        MarginalDistances(pairs, np.full(pairs.k, 7), 2),
        Total(domain),
    ]


@pytest.mark.parametrize(
    ("partitions", "adjacency"),
    [
        (1, Adjacency()),
        (7, Adjacency()),
        (1, Adjacency(unit="person", rows=4)),
        pytest.param(7, Adjacency(unit="person", rows=4), marks=LANDING),
    ],
)
def test_the_integers_are_those_of_the_dataframe(spark, partitions, adjacency):
    frame = spark.createDataFrame(table_of()).repartition(partitions)
    room = PrivateTable(SparkSource(frame), SCHEMA, adjacency)
    pandas = PrivateTable(FrameSource(table_of()), SCHEMA, adjacency)
    for statistic in statistics():
        np.testing.assert_array_equal(room.exact(statistic), pandas.exact(statistic))
    room.close()


@LANDING
def test_one_row_of_a_spark_table_is_one_row_read(spark):
    """R35."""
    types = "who string, n bigint, t string, x double"
    cases = some_pairs(typed=True, each=FEWEST)
    assert_one_row(lambda rows: SparkSource(spark.createDataFrame(rows, types).repartition(2)), cases)


def test_an_answer_does_not_depend_on_what_was_asked_before(spark):
    """One person's thousand rows were released under a bound of one: the rows kept for another bound were still there."""
    source = SparkSource(spark.createDataFrame(busy_table()).coalesce(2))
    chosen = [SETTINGS[0], SETTINGS[1], SETTINGS[2], SETTINGS[4]]
    alone = {one.name: answer(FrameSource(busy_table()), one) for one in SETTINGS}
    asked = [(setting.name, answer(source, setting)) for setting in every_pair(chosen)]
    assert asked == [(setting, alone[setting]) for setting, _ in asked]


def test_curators_of_one_source_that_are_asked_in_turns_do_not_hear_each_other(spark):
    source = SparkSource(spark.createDataFrame(busy_table()).coalesce(2))
    alone = {one.name: answer(FrameSource(busy_table()), one) for one in SETTINGS}
    curators = {one.name: curator_of(source, one) for one in SETTINGS}
    for _ in range(2):
        assert {one.name: sums(curators[one.name], one, share=0.5) for one in SETTINGS} == alone


HOSTILE = """
    SELECT CAST(unhex('fffe34373131') AS STRING) AS city, CAST('NaN' AS DOUBLE) AS height, 2147483647 AS age,
           true AS member, timestamp_seconds(8000000000000) AS born, unhex('ff') AS person
    UNION ALL SELECT '\\u0000', CAST('-Infinity' AS DOUBLE), -2147483648, null, timestamp_seconds(-8000000000000), null
    UNION ALL SELECT null, double('5e-324'), null, false, timestamp '0001-01-01 00:00:00', unhex('fe')
"""
"""A text that is no UTF-8, moments of the years 255000 and before, infinity."""


@pytest.mark.parametrize("unit", [None, pytest.param("person", marks=LANDING)])
def test_hostile_cells_change_their_own_rows_and_nothing_else(spark, unit, capfd):
    hostile = spark.sql(HOSTILE)
    plain = (
        spark.createDataFrame(table_of(50))
        .select(hostile.columns)
        .selectExpr("city", "height", "cast(age as int) age", "member", "born", "cast(person as binary) person")
    )
    adjacency = Adjacency() if unit is None else Adjacency(unit=unit, rows=2)
    domain = domain_of(SCHEMA, bins=5)
    for statistic in (Total(domain), *(Marginals(domain, ((j,),)) for j in range(len(domain)))):
        without, with_ = (
            PrivateTable(SparkSource(frame), SCHEMA, adjacency).exact(statistic)
            for frame in (plain, plain.union(hostile))
        )
        assert (with_ >= without).all()
        assert (with_ - without).sum() == 3


def dies(flag) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def dawdles(flag) -> None:
    time.sleep(4)  # the same part is begun again elsewhere meanwhile


def troubled(spark, flag, trouble):
    """A DataFrame one of whose tasks has trouble at its first attempt."""

    def once(batches):
        if TaskContext.get().partitionId() == 1 and not flag.exists():
            flag.touch()
            trouble(flag)
        yield from batches

    frame = spark.createDataFrame(table_of()).repartition(4)
    return frame.mapInArrow(once, frame.schema)


@pytest.mark.parametrize("trouble", [pytest.param(dies, marks=LANDING), dawdles])
def test_a_task_that_is_killed_or_run_twice_is_counted_once(spark, tmp_path, trouble):
    room = PrivateTable(SparkSource(troubled(spark, tmp_path / "flag", trouble)), SCHEMA, Adjacency())
    statistic = statistics()[0]
    expected = PrivateTable(FrameSource(table_of()), SCHEMA, Adjacency()).exact(statistic)
    np.testing.assert_array_equal(room.exact(statistic), expected)
    assert (tmp_path / "flag").exists()


def with_fixed_noise(monkeypatch) -> list[int]:
    """Make every draw depend on its number alone; return the list of how much was drawn each time."""
    drawn: list[int] = []

    def fixed(values, *, scale):
        rng = np.random.default_rng(len(drawn))
        drawn.append(len(values))
        return values + np.rint(rng.normal(0, scale, len(values))).astype(np.int64)

    for law in ("discrete_gaussian", "discrete_laplace"):
        monkeypatch.setattr(noise, law, fixed)
    return drawn


def test_a_curator_draws_its_noise_once_and_measures_as_it_would_the_dataframe(spark, tmp_path, monkeypatch):
    drawn = with_fixed_noise(monkeypatch)
    found = []
    for table in (troubled(spark, tmp_path / "flag", dies), table_of()):
        drawn.clear()
        with Curator(table, schema=SCHEMA, budget=ZCDP(1)) as curator:
            found.append([curator.measure(statistic, spend=ZCDP(0.25)).values for statistic in statistics()])
        assert len(drawn) == len(statistics())
    for of_spark, of_pandas in zip(*found, strict=True):
        np.testing.assert_array_equal(of_spark, of_pandas)
    assert (tmp_path / "flag").exists()


def _refused(self, *_: object, **__: object):
    raise AssertionError("rows were asked for")


@LANDING
def test_a_whole_release_asks_and_hears_the_same_and_no_row_comes_to_the_driver(spark, monkeypatch):
    drawn = with_fixed_noise(monkeypatch)
    monkeypatch.setattr(SparkSource, "blocks", _refused)
    found = []
    for table in (spark.createDataFrame(table_of()).repartition(3), table_of()):
        drawn.clear()
        with Curator(table, schema=SCHEMA, budget=ApproxDP(2, 1e-6)) as curator:
            release = AdaptiveMarginals().release(curator, random_state=0)
        found.append(release)
    of_spark, of_pandas = found
    assert len(of_spark.measurements) == len(of_pandas.measurements)
    for one, other in zip(of_spark.measurements, of_pandas.measurements, strict=True):
        np.testing.assert_array_equal(one.values, other.values)
    one, other = (release.sample(50, random_state=1) for release in found)
    pd.testing.assert_frame_equal(one, other, check_dtype=False)


def test_the_estimator_takes_a_spark_dataframe(spark):
    made = SyntheticRelease(schema=SCHEMA, random_state=0, privacy_unit="person", max_rows_per_unit=2)
    rows = made.fit(spark.createDataFrame(table_of())).sample(20)
    assert list(rows.columns) == list(SCHEMA)
    assert "person" in str(made.receipt_)


def test_removing_all_rows_of_a_unit_changes_at_most_so_many_rows(spark):
    adjacency = Adjacency(unit="person", rows=3)
    marginals = Marginals(domain_of(SCHEMA, bins=4), ((0, 1, 2),))
    table = table_of()
    sums = [
        PrivateTable(SparkSource(spark.createDataFrame(part).repartition(5)), SCHEMA, adjacency).exact(marginals)
        for part in (table, table[table["person"] != "c"])
    ]
    difference = sums[0] - sums[1]
    assert difference.min() >= 0
    assert difference.sum() == 3


def test_a_unit_may_be_a_declared_identifier(spark):
    schema = Schema({"person": Identifier(), "age": SCHEMA["age"]})
    adjacency = Adjacency(unit="person", rows=2)
    total = Total(domain_of(schema))
    frame = PrivateTable(FrameSource(table_of()), schema, adjacency)
    there = PrivateTable(SparkSource(spark.createDataFrame(table_of())), schema, adjacency)
    np.testing.assert_array_equal(there.exact(total), frame.exact(total))


def test_a_table_without_rows_sums_to_nothing(spark):
    frame = spark.createDataFrame(table_of()).limit(0)
    marginals = statistics()[0]
    assert not PrivateTable(SparkSource(frame), SCHEMA, Adjacency()).exact(marginals).any()


def test_columns_to_discover_come_in_blocks(spark):
    source = SparkSource(spark.createDataFrame(table_of()))
    blocks = list(source.blocks({"age": SCHEMA["age"]}, extra=("person",)))
    assert sum(len(block["age"].values) for block in blocks) == 3000


@LANDING
def test_an_error_inside_spark_quotes_no_value(spark):
    frame = spark.sql("SELECT assert_true(id < 2, concat('secret', id)) AS x, 1 AS age FROM range(5)")
    schema = Schema({"x": Categorical(["a"]), "age": Integer(0, 9)})
    with pytest.raises(DataError, match="Spark"):
        PrivateTable(SparkSource(frame), schema, Adjacency()).exact(Total(domain_of(schema)))


def test_something_else_is_no_spark_table():
    with pytest.raises(DataError, match=r"\bint\b"):
        SparkSource(3)


@LANDING
def test_synthetic_rows_are_drawn_on_the_executors_and_repeat_by_their_seed(spark):
    schema = Schema({"id": Identifier(), **SCHEMA})
    model = model_of(schema)
    frames = [sample_on_spark(spark, model, 1000, partitions=3, random_state=5).toPandas() for _ in range(2)]
    assert sorted(frames[0]["id"].astype(int)) == list(range(1, 1001))
    assert frames[0]["age"].between(0, 90).all()
    assert set(frames[0]["city"].dropna()) <= {"Oslo", "Rome"}
    assert frames[0].sort_values("id").reset_index(drop=True).equals(frames[1].sort_values("id").reset_index(drop=True))


@LANDING
def test_weights_of_all_partitions_together_add_up_to_the_population(spark):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"city": rng.choice(["Oslo", "Rome"], 3000), "weight": rng.uniform(10, 200, 3000)})
    schema = Schema({"city": Categorical(["Oslo", "Rome"]), "weight": Weight(1, 1000)})
    model = SyntheticRelease(schema=schema, epsilon=5.0, random_state=0).fit(table).release_.output
    for partitions in (1, 3):
        weights = sample_on_spark(spark, model, 1000, partitions=partitions, random_state=5).toPandas()["weight"]
        assert weights.sum() == pytest.approx(model.populations["weight"])


def test_each_executor_writes_its_part_of_the_synthetic_rows(spark, tmp_path):
    model = model_of(SCHEMA)
    sample_on_spark(spark, model, 1000, partitions=4, random_state=5).write.parquet(str(tmp_path / "out"))
    source = ParquetSource(tmp_path / "out")
    assert len(source.files) == 4
    assert sum(len(block["age"].values) for block in source.blocks({"age": SCHEMA["age"]})) == 1000


def test_fewer_rows_than_partitions_are_refused(spark):
    with pytest.raises(ParameterError, match="partition"):
        sample_on_spark(spark, model_of(SCHEMA), 3, partitions=4)
