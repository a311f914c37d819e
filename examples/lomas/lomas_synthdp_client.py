"""Ask a server of lomas for a release by synthdp: what goes over the wire, and the part of lomas' client."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from lomas_core.models.requests import LomasRequestModel, QueryModel
from lomas_core.models.responses import CostResponse, QueryResponse
from pydantic import Field

if TYPE_CHECKING:
    from lomas_client.client import Client

SECONDS = 3600  # a safety limit: a release of millions of rows takes minutes


class SynthdpRequest(LomasRequestModel):
    """What a release costs: that is known before any row is read."""

    epsilon: Annotated[float, Field(gt=0)]
    delta: Annotated[float, Field(ge=0)]


class SynthdpQuery(SynthdpRequest, QueryModel):
    """A release of some columns, or all, and how many rows of it come back (default: the noisy number of real ones)."""

    select_cols: Annotated[list[str], Field(default_factory=list)]
    nb_samples: int | None = None
    target: str | None = None


class SynthdpClient:
    """What a user of lomas has: ``SynthdpClient(client).query(epsilon=1.0, delta=1e-9).result.df_samples``."""

    def __init__(self, client: Client) -> None:
        self.http = client.http_client

    def cost(self, *, epsilon: float, delta: float) -> CostResponse | None:
        """Return what a release would cost."""
        from lomas_client.utils import validate_model_response

        body = SynthdpRequest(dataset_name=self.http.dataset_name, epsilon=epsilon, delta=delta)
        return validate_model_response(self.http.post("estimate_synthdp_cost", body), CostResponse)

    def query(self, *, epsilon: float, delta: float, **settings: Any) -> QueryResponse | None:
        """Return a synthetic table, and what it cost."""
        from lomas_client.utils import validate_model_response

        body = SynthdpQuery(dataset_name=self.http.dataset_name, epsilon=epsilon, delta=delta, **settings)
        return validate_model_response(self.http.post("synthdp_query", body, SECONDS), QueryResponse)
