"""Releases by synthdp through lomas, the platform of the Swiss Federal Statistical Office: the part of its server.

Lomas pins an OpenDP that synthdp cannot use, so synthdp stays in an environment of its own, and the server runs its command
line there: ``SYNTHDP`` names the program, ``SYNTHDP_LEDGERS`` a folder for the ledgers, one a data set.  Nothing but this
module, lomas and pandas is imported here.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Annotated

import pandas as pd
from fastapi import APIRouter, Depends, Header, Request
from lomas_core.error_handler import InvalidQueryException, UnauthorizedAccessException
from lomas_core.models.requests import QueryModel, SmartnoiseSynthRequestModel
from lomas_core.models.responses import CostResponse, QueryResponse, SmartnoiseSynthSamples
from lomas_schema import schema_of, unit_of
from lomas_server.data_connector.factory import data_connector_factory
from lomas_server.dp_queries.dp_querier import DPQuerier
from lomas_server.routes.utils import server_live, timing_protection
from lomas_synthdp_client import SECONDS, SynthdpQuery, SynthdpRequest

router = APIRouter()
# Lomas' archive files answers under its own libraries alone: a request of another would be charged and not answered.
SmartnoiseSynthRequestModel.register(SynthdpRequest)


class SynthdpQuerier(DPQuerier[SynthdpRequest, SynthdpQuery, SmartnoiseSynthSamples]):
    """Asks ``synthdp release`` for a table."""

    def cost(self, query_json: SynthdpRequest) -> tuple[float, float]:
        """Return (ε, δ): synthdp spends what it is given, never more."""
        return query_json.epsilon, query_json.delta

    def query(self, query_json: SynthdpQuery) -> SmartnoiseSynthSamples:
        """Return the synthetic rows.

        Lomas takes from a user's budget only after this has returned, so a failure that has spent is charged here.
        """
        metadata = self.data_connector.get_metadata().model_dump()
        table = self.data_connector.get_pandas_df()
        unknown = set(query_json.select_cols) - set(table.columns)
        if unknown:
            raise InvalidQueryException(f"no such column: {', '.join(sorted(unknown))}; nothing was spent")
        names = query_json.select_cols or list(table.columns)
        try:
            unit, at_most = unit_of(metadata)
            schema = schema_of(metadata, [name for name in names if name != unit])
        except ValueError as error:
            raise InvalidQueryException(f"{error}; nothing was spent") from None
        read = [*names, unit] if unit and unit not in names else names
        ledgers = Path(os.environ["SYNTHDP_LEDGERS"])
        ledger = ledgers / f"{query_json.dataset_name}.sqlite"
        with tempfile.TemporaryDirectory(prefix="lomas-synthdp-") as name:  # 0700: only the server's user reads it
            folder = Path(name)
            table[read].to_csv(folder / "table.csv", index=False)
            (folder / "schema.json").write_text(json.dumps(schema), encoding="utf-8")
            command = [
                os.environ.get("SYNTHDP", "synthdp"), "release", "table.csv", "--schema", "schema.json", "--out", "rows.csv",
                "--epsilon", str(query_json.epsilon), "--delta", str(query_json.delta), "--json",
                "--ledger", str(ledger.resolve()), "--dataset", query_json.dataset_name,
                *(["--privacy-unit", unit, "--max-rows-per-unit", str(at_most)] if unit else []),
                *(["--rows", str(query_json.nb_samples)] if query_json.nb_samples else []),
                *(["--target", query_json.target] if query_json.target else []),
            ]  # fmt: skip
            spends = number_of_spends(ledger)
            ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=SECONDS, check=False)  # noqa: S603  the request was checked
            if ran.returncode != 0:
                if number_of_spends(ledger) > spends:
                    user = self.admin_database
                    user.update_budget(self.user_name, query_json.dataset_name, query_json.epsilon, query_json.delta)
                raise InvalidQueryException(ran.stderr.strip().splitlines()[-1])
            return SmartnoiseSynthSamples(df_samples=pd.read_csv(folder / "rows.csv").fillna(""))

    def handle_query(self, query_json: QueryModel, user_name: str) -> QueryResponse:
        """Answer, or say why not; the name is kept for a charge after a failure."""
        self.user_name = user_name
        return super().handle_query(query_json, user_name)


def number_of_spends(ledger: Path) -> int:
    """How many entries a ledger holds; none where it is not there yet."""
    if not ledger.exists():
        return 0
    command = [os.environ.get("SYNTHDP", "synthdp"), "ledger", str(ledger.resolve()), "--json"]
    said = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=True).stdout  # noqa: S603  names no request
    return sum(len(data_set["spends"]) for data_set in json.loads(said).values())


def querier(request: Request, body: SynthdpRequest) -> SynthdpQuerier:
    state = request.app.state
    connector = data_connector_factory(body.dataset_name, state.admin_database, state.private_credentials)
    return SynthdpQuerier(data_connector=connector, admin_database=state.admin_database)


@router.post("/synthdp_query", dependencies=[Depends(server_live)], response_model=QueryResponse)
def synthdp_query(user_name: Annotated[str, Header()], request: Request, body: SynthdpQuery) -> QueryResponse:
    """Release a synthetic table of a private data set."""
    return timing_protection(querier(request, body).handle_query)(body, user_name)


@router.post("/estimate_synthdp_cost", dependencies=[Depends(server_live)], response_model=CostResponse)
def synthdp_cost(user_name: Annotated[str, Header()], request: Request, body: SynthdpRequest) -> CostResponse:
    """Say what a release would cost; nothing is read."""
    if not request.app.state.admin_database.has_user_access_to_dataset(user_name, body.dataset_name):
        raise UnauthorizedAccessException(f"{user_name} does not have access to {body.dataset_name}.")
    epsilon, delta = querier(request, body).cost(body)
    return CostResponse(epsilon=epsilon, delta=delta)
