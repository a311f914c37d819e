"""What the small parts of the room refuse, and what a receipt says: the branches that larger tests pass by."""

import json

import numpy as np
import pandas as pd
import pytest

from synthdp import ZCDP, ApproxDP, Curator, GaussianDP, Ledger, PureDP, Schema
from synthdp.domain.domain import domain_of
from synthdp.errors import DataError, LedgerError, ParameterError
from synthdp.measurements import NoiseLaw
from synthdp.privacy.budget import Account
from synthdp.privacy.calibration import calibrate
from synthdp.privacy.loss import Remaining
from synthdp.privacy.neighbors import Adjacency, Neighbors, neighbors_named
from synthdp.privacy.receipt import Receipt
from synthdp.queries.marginals import one_ways
from synthdp.queries.norms import Norms
from synthdp.schema.columns import Integer

SCHEMA = Schema({"n": Integer(0, 9)})
TABLE = pd.DataFrame({"n": np.arange(10)})
QUERIES = one_ways(domain_of(SCHEMA))
NORMS = Norms(1, 1, 1)


@pytest.mark.parametrize(
    "call",
    [
        lambda: Adjacency(rows=0),
        lambda: Adjacency(unit="u", rows=True),
        lambda: Adjacency(rows=2),
        lambda: Adjacency(Neighbors.REPLACE_ONE, "u", 2),
        lambda: neighbors_named("twins"),
        lambda: Curator(TABLE, schema=SCHEMA, budget=1.0),
        lambda: calibrate(NORMS, PureDP(1.0), k=1, law=NoiseLaw.GAUSSIAN),
        lambda: calibrate(NORMS, ZCDP(1.0), k=1, law=NoiseLaw.LAPLACE),
        lambda: calibrate(NORMS, GaussianDP(1.0), k=1, law=NoiseLaw.LINF),
        lambda: calibrate(NORMS, Remaining(), k=1),
        lambda: Curator(TABLE, schema=SCHEMA, budget=GaussianDP(1.0)).select(QUERIES),
    ],
)
def test_what_cannot_be_meant_is_refused(call):
    with pytest.raises(ParameterError):
        call()


def test_a_relation_may_be_given_by_its_name():
    assert Adjacency("replace_one").neighbors is Neighbors.REPLACE_ONE
    assert str(Adjacency("replace_one")) == "replace one row"


@pytest.mark.parametrize("budget", [PureDP(1.0), ApproxDP(1.0, 1e-9), ZCDP(1.0), GaussianDP(1.0)])
def test_half_of_an_account_leaves_half(budget):
    account = Account(budget)
    account.charge(budget.fraction(0.5))
    assert str(account.resolve(Remaining())) == str(budget.fraction(0.5))
    account.charge(budget.fraction(0.5))
    assert account.remaining is None


def test_a_receipt_reads_back_from_its_document():
    curator = Curator(TABLE, schema=SCHEMA, budget=PureDP(1.0))
    curator.measure(QUERIES)
    receipt = curator.receipt(notes=("one", "two"))
    document = json.loads(json.dumps(receipt.to_document()))
    assert str(Receipt.from_document(document)) == str(receipt)


def test_a_ledger_of_another_version_is_refused(tmp_path):
    import sqlite3

    book = Ledger(tmp_path / "l.sqlite")
    book.set_cap("t", PureDP(1.0))
    assert str(tmp_path) in repr(book)
    assert book.datasets() == ["t"]
    assert book.cap("nobody") is None
    with sqlite3.connect(tmp_path / "l.sqlite") as db:
        db.execute("UPDATE meta SET version = 99")
    db.close()
    with pytest.raises(LedgerError, match=r"\b99\b"):
        book.entries()


def test_a_key_of_a_column_that_is_not_there_is_refused():
    with pytest.raises(DataError, match="'m'"):
        Curator(TABLE, schema=SCHEMA, budget=ApproxDP(1.0, 1e-6)).histogram(("m",))
