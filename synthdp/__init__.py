"""synthdp: differentially private synthetic tables, with a guarantee that holds end to end."""

from synthdp.mechanisms.adaptive_marginals import AdaptiveMarginals
from synthdp.privacy.curator import Curator
from synthdp.privacy.ledger import Ledger
from synthdp.privacy.loss import ZCDP, ApproxDP, GaussianDP, PureDP
from synthdp.schema.columns import (
    Boolean,
    Categorical,
    Continuous,
    Datetime,
    Duration,
    Identifier,
    Integer,
    Ordinal,
)
from synthdp.schema.constraints import Forbidden, Implies, LessEqual
from synthdp.schema.schema import Schema

__version__ = "0.1.0"

__all__ = [
    "ZCDP",
    "AdaptiveMarginals",
    "ApproxDP",
    "Boolean",
    "Categorical",
    "Continuous",
    "Curator",
    "Datetime",
    "Duration",
    "Forbidden",
    "GaussianDP",
    "Identifier",
    "Implies",
    "Integer",
    "Ledger",
    "LessEqual",
    "Ordinal",
    "PureDP",
    "Schema",
    "__version__",
]
