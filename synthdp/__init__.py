"""synthdp: differentially private synthetic tables, with a guarantee that holds end to end.

Names are loaded when they are first used, so that `import synthdp` is quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from synthdp.estimators import (
        DomainDiscretizer as DomainDiscretizer,
        TrainOnSynthetic as TrainOnSynthetic,
        TrigonometricFeatures as TrigonometricFeatures,
    )
    from synthdp.evaluate import nonprivate_evaluate as nonprivate_evaluate
    from synthdp.mechanisms.adaptive_marginals import AdaptiveMarginals as AdaptiveMarginals
    from synthdp.mechanisms.automatic import Automatic as Automatic
    from synthdp.mechanisms.decision_list_release import DecisionListRelease as DecisionListRelease
    from synthdp.mechanisms.direct_answers import GaussianAnswers as GaussianAnswers, LaplaceAnswers as LaplaceAnswers
    from synthdp.mechanisms.fourier_marginals import FourierMarginals as FourierMarginals
    from synthdp.mechanisms.l1_fit import L1Fit as L1Fit
    from synthdp.mechanisms.median_mechanism import MedianMechanism as MedianMechanism
    from synthdp.mechanisms.monomial_release import MonomialRelease as MonomialRelease
    from synthdp.mechanisms.mwem import MWEM as MWEM
    from synthdp.mechanisms.net import NetMechanism as NetMechanism
    from synthdp.mechanisms.parity_release import ParityRelease as ParityRelease
    from synthdp.mechanisms.private_boosting import PrivateBoosting as PrivateBoosting
    from synthdp.mechanisms.private_multiplicative_weights import (
        PrivateMultiplicativeWeights as PrivateMultiplicativeWeights,
    )
    from synthdp.mechanisms.protocol import Release as Release
    from synthdp.mechanisms.smooth_summary import SmoothSummary as SmoothSummary
    from synthdp.mechanisms.smooth_synthesis import SmoothSynthesis as SmoothSynthesis
    from synthdp.mechanisms.sparse_mwem import SparseMWEM as SparseMWEM
    from synthdp.mechanisms.sparse_projection import SparseProjection as SparseProjection
    from synthdp.mechanisms.sparse_session_files import resume_session as resume_session
    from synthdp.mechanisms.sparse_weights import SparseWeights as SparseWeights
    from synthdp.mechanisms.stability_histogram import StabilityHistogram as StabilityHistogram
    from synthdp.privacy.curator import Curator as Curator
    from synthdp.privacy.ledger import Ledger as Ledger
    from synthdp.privacy.loss import ZCDP as ZCDP, ApproxDP as ApproxDP, GaussianDP as GaussianDP, PureDP as PureDP
    from synthdp.privacy.receipt import Receipt as Receipt
    from synthdp.progress import Progress as Progress
    from synthdp.queries.conjunctions import (
        conjunction as conjunction,
        disjunction as disjunction,
        exactly_r as exactly_r,
        r_of_k as r_of_k,
        symmetric as symmetric,
    )
    from synthdp.queries.decision_lists import (
        DecisionList as DecisionList,
        decision_list_columns as decision_list_columns,
        decision_list_schema as decision_list_schema,
    )
    from synthdp.queries.gaussian_kernels import GaussianKernels as GaussianKernels
    from synthdp.queries.questions import (
        count as count,
        marginal as marginal,
        mean as mean,
        quantile as quantile,
        smooth as smooth,
    )
    from synthdp.queries.sparse import (
        KeyList as KeyList,
        SparseConjunction as SparseConjunction,
        Support as Support,
        sparse_conjunction as sparse_conjunction,
    )
    from synthdp.rehearsal.plan import Plan as Plan
    from synthdp.rehearsal.rehearse import plan as plan
    from synthdp.release import SyntheticRelease as SyntheticRelease
    from synthdp.schema.columns import (
        Boolean as Boolean,
        Categorical as Categorical,
        Continuous as Continuous,
        Datetime as Datetime,
        Duration as Duration,
        Identifier as Identifier,
        Integer as Integer,
        Ordinal as Ordinal,
    )
    from synthdp.schema.constraints import Forbidden as Forbidden, Implies as Implies, LessEqual as LessEqual
    from synthdp.schema.schema import Schema as Schema
    from synthdp.storage import load as load, save as save
    from synthdp.tables.csv import CsvSource as CsvSource, write_csv as write_csv
    from synthdp.tables.duckdb import DuckDBSource as DuckDBSource
    from synthdp.tables.format import TableFormat as TableFormat
    from synthdp.tables.keys import overlap as overlap
    from synthdp.tables.parquet import ParquetSource as ParquetSource

__version__ = "0.1.0"

_HOME = {
    "AdaptiveMarginals": "synthdp.mechanisms.adaptive_marginals",
    "ApproxDP": "synthdp.privacy.loss",
    "Automatic": "synthdp.mechanisms.automatic",
    "Boolean": "synthdp.schema.columns",
    "Categorical": "synthdp.schema.columns",
    "Continuous": "synthdp.schema.columns",
    "CsvSource": "synthdp.tables.csv",
    "Curator": "synthdp.privacy.curator",
    "Datetime": "synthdp.schema.columns",
    "DecisionList": "synthdp.queries.decision_lists",
    "DecisionListRelease": "synthdp.mechanisms.decision_list_release",
    "DomainDiscretizer": "synthdp.estimators",
    "DuckDBSource": "synthdp.tables.duckdb",
    "Duration": "synthdp.schema.columns",
    "Forbidden": "synthdp.schema.constraints",
    "FourierMarginals": "synthdp.mechanisms.fourier_marginals",
    "GaussianAnswers": "synthdp.mechanisms.direct_answers",
    "GaussianDP": "synthdp.privacy.loss",
    "GaussianKernels": "synthdp.queries.gaussian_kernels",
    "Identifier": "synthdp.schema.columns",
    "Implies": "synthdp.schema.constraints",
    "Integer": "synthdp.schema.columns",
    "KeyList": "synthdp.queries.sparse",
    "L1Fit": "synthdp.mechanisms.l1_fit",
    "LaplaceAnswers": "synthdp.mechanisms.direct_answers",
    "Ledger": "synthdp.privacy.ledger",
    "LessEqual": "synthdp.schema.constraints",
    "MWEM": "synthdp.mechanisms.mwem",
    "MedianMechanism": "synthdp.mechanisms.median_mechanism",
    "MonomialRelease": "synthdp.mechanisms.monomial_release",
    "NetMechanism": "synthdp.mechanisms.net",
    "Ordinal": "synthdp.schema.columns",
    "ParityRelease": "synthdp.mechanisms.parity_release",
    "ParquetSource": "synthdp.tables.parquet",
    "Plan": "synthdp.rehearsal.plan",
    "PrivateBoosting": "synthdp.mechanisms.private_boosting",
    "PrivateMultiplicativeWeights": "synthdp.mechanisms.private_multiplicative_weights",
    "Progress": "synthdp.progress",
    "PureDP": "synthdp.privacy.loss",
    "Receipt": "synthdp.privacy.receipt",
    "Release": "synthdp.mechanisms.protocol",
    "Schema": "synthdp.schema.schema",
    "SmoothSummary": "synthdp.mechanisms.smooth_summary",
    "SmoothSynthesis": "synthdp.mechanisms.smooth_synthesis",
    "SparseConjunction": "synthdp.queries.sparse",
    "SparseMWEM": "synthdp.mechanisms.sparse_mwem",
    "SparseProjection": "synthdp.mechanisms.sparse_projection",
    "SparseWeights": "synthdp.mechanisms.sparse_weights",
    "StabilityHistogram": "synthdp.mechanisms.stability_histogram",
    "Support": "synthdp.queries.sparse",
    "SyntheticRelease": "synthdp.release",
    "TableFormat": "synthdp.tables.format",
    "TrainOnSynthetic": "synthdp.estimators",
    "TrigonometricFeatures": "synthdp.estimators",
    "ZCDP": "synthdp.privacy.loss",
    "conjunction": "synthdp.queries.conjunctions",
    "count": "synthdp.queries.questions",
    "decision_list_columns": "synthdp.queries.decision_lists",
    "decision_list_schema": "synthdp.queries.decision_lists",
    "disjunction": "synthdp.queries.conjunctions",
    "exactly_r": "synthdp.queries.conjunctions",
    "load": "synthdp.storage",
    "marginal": "synthdp.queries.questions",
    "mean": "synthdp.queries.questions",
    "overlap": "synthdp.tables.keys",
    "nonprivate_evaluate": "synthdp.evaluate",
    "plan": "synthdp.rehearsal.rehearse",
    "quantile": "synthdp.queries.questions",
    "r_of_k": "synthdp.queries.conjunctions",
    "resume_session": "synthdp.mechanisms.sparse_session_files",
    "save": "synthdp.storage",
    "smooth": "synthdp.queries.questions",
    "sparse_conjunction": "synthdp.queries.sparse",
    "symmetric": "synthdp.queries.conjunctions",
    "write_csv": "synthdp.tables.csv",
}

_EXTRAS = {"DuckDBSource": "duckdb,arrow", "ParquetSource": "arrow"}
"""Names that need more than the plain installation; `from synthdp import *` leaves them out."""

__all__ = [
    "MWEM",
    "ZCDP",
    "AdaptiveMarginals",
    "ApproxDP",
    "Automatic",
    "Boolean",
    "Categorical",
    "Continuous",
    "CsvSource",
    "Curator",
    "Datetime",
    "DecisionList",
    "DecisionListRelease",
    "DomainDiscretizer",
    "Duration",
    "Forbidden",
    "FourierMarginals",
    "GaussianAnswers",
    "GaussianDP",
    "GaussianKernels",
    "Identifier",
    "Implies",
    "Integer",
    "KeyList",
    "L1Fit",
    "LaplaceAnswers",
    "Ledger",
    "LessEqual",
    "MedianMechanism",
    "MonomialRelease",
    "NetMechanism",
    "Ordinal",
    "ParityRelease",
    "Plan",
    "PrivateBoosting",
    "PrivateMultiplicativeWeights",
    "Progress",
    "PureDP",
    "Receipt",
    "Release",
    "Schema",
    "SmoothSummary",
    "SmoothSynthesis",
    "SparseConjunction",
    "SparseMWEM",
    "SparseProjection",
    "SparseWeights",
    "StabilityHistogram",
    "Support",
    "SyntheticRelease",
    "TableFormat",
    "TrainOnSynthetic",
    "TrigonometricFeatures",
    "__version__",
    "conjunction",
    "count",
    "decision_list_columns",
    "decision_list_schema",
    "disjunction",
    "exactly_r",
    "load",
    "marginal",
    "mean",
    "nonprivate_evaluate",
    "overlap",
    "plan",
    "quantile",
    "r_of_k",
    "resume_session",
    "save",
    "smooth",
    "sparse_conjunction",
    "symmetric",
    "write_csv",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'synthdp' has no attribute {name!r}")
    try:
        value = getattr(import_module(_HOME[name]), name)
    except ModuleNotFoundError as error:
        if name not in _EXTRAS:
            raise
        raise ImportError(f"{name} needs {error.name}: pip install 'synthdp[{_EXTRAS[name]}]'") from None
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])
