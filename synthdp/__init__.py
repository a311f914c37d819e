"""synthdp: differentially private synthetic tables, with a guarantee that holds end to end.

Names are loaded when they are first used, so that `import synthdp` is quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from synthdp.answers.questions import (
        correlation as correlation,
        count as count,
        marginal as marginal,
        mean as mean,
        quantile as quantile,
        regression as regression,
        share as share,
        smooth as smooth,
        sum as sum,  # noqa: A004 - the word users know
        variance as variance,
    )
    from synthdp.answers.samples import combine as combine
    from synthdp.curator.curator import Curator as Curator
    from synthdp.curator.ledger import Ledger as Ledger
    from synthdp.domain.discretize import domain_of as domain_of
    from synthdp.estimators.database_release import DatabaseRelease as DatabaseRelease
    from synthdp.estimators.synthetic_release import SyntheticRelease as SyntheticRelease
    from synthdp.estimators.train_on_synthetic import TrainOnSynthetic as TrainOnSynthetic
    from synthdp.estimators.transformers import (
        DomainDiscretizer as DomainDiscretizer,
        TrigonometricFeatures as TrigonometricFeatures,
    )
    from synthdp.measurements import NoiseLaw as NoiseLaw
    from synthdp.mechanisms.adaptive.adaptive_marginals import AdaptiveMarginals as AdaptiveMarginals
    from synthdp.mechanisms.automatic import Automatic as Automatic
    from synthdp.mechanisms.direct_answers import GaussianAnswers as GaussianAnswers, LaplaceAnswers as LaplaceAnswers
    from synthdp.mechanisms.iterative import IterativeConstruction as IterativeConstruction
    from synthdp.mechanisms.l1_fit import L1Fit as L1Fit
    from synthdp.nonprivate.compare import compare as compare
    from synthdp.nonprivate.draft import draft as draft
    from synthdp.nonprivate.evaluate import nonprivate_evaluate as nonprivate_evaluate
    from synthdp.nonprivate.risk import nonprivate_risk as nonprivate_risk
    from synthdp.planning.dry_run import plan as plan
    from synthdp.planning.plan import Plan as Plan
    from synthdp.privacy.loss import ZCDP as ZCDP, ApproxDP as ApproxDP, GaussianDP as GaussianDP, PureDP as PureDP
    from synthdp.privacy.receipt import Receipt as Receipt
    from synthdp.progress import Progress as Progress
    from synthdp.queries.explicit import CellQueries as CellQueries
    from synthdp.queries.marginals import Marginals as Marginals
    from synthdp.queries.supports import (
        KeyList as KeyList,
        SparseConjunction as SparseConjunction,
        Support as Support,
        sparse_conjunction as sparse_conjunction,
    )
    from synthdp.release import Release as Release
    from synthdp.schema.columns import (
        Boolean as Boolean,
        Categorical as Categorical,
        Continuous as Continuous,
        Date as Date,
        Datetime as Datetime,
        Decimal as Decimal,
        Duration as Duration,
        Identifier as Identifier,
        Integer as Integer,
        Ordinal as Ordinal,
        Time as Time,
    )
    from synthdp.schema.constraints import (
        CalendarDate as CalendarDate,
        Combinations as Combinations,
        Forbidden as Forbidden,
        Iff as Iff,
        Implies as Implies,
        LessEqual as LessEqual,
    )
    from synthdp.schema.csv_format import CsvFormat as CsvFormat
    from synthdp.schema.database import DatabaseSchema as DatabaseSchema
    from synthdp.schema.derived import Derived as Derived
    from synthdp.schema.relation import Relation as Relation
    from synthdp.schema.schema import Schema as Schema
    from synthdp.schema.sibling_rules import (
        NeverFalls as NeverFalls,
        RowsPerParent as RowsPerParent,
        UniquePerParent as UniquePerParent,
    )
    from synthdp.storage import load as load, save as save
    from synthdp.tables.format import TableFormat as TableFormat
    from synthdp.tables.keys import overlap as overlap
    from synthdp.tables.sources.csv import CsvSource as CsvSource, write_csv as write_csv
    from synthdp.tables.sources.duckdb import DuckDBSource as DuckDBSource
    from synthdp.tables.sources.excel import ExcelSource as ExcelSource
    from synthdp.tables.sources.parquet import ParquetSource as ParquetSource
    from synthdp.tables.sources.spark import SparkSource as SparkSource
    from synthdp.tables.sources.sql import SqlSource as SqlSource
    from synthdp.works.net.interactive import InteractiveMechanism as InteractiveMechanism
    from synthdp.works.net.median_mechanism import MedianMechanism as MedianMechanism
    from synthdp.works.net.mwem import MWEM as MWEM
    from synthdp.works.net.net import (
        NetMechanism as NetMechanism,
        alpha_net_size as alpha_net_size,
        net_bound as net_bound,
        required_size as required_size,
    )
    from synthdp.works.net.private_boosting import PrivateBoosting as PrivateBoosting
    from synthdp.works.net.private_multiplicative_weights import (
        PrivateMultiplicativeWeights as PrivateMultiplicativeWeights,
    )
    from synthdp.works.polynomials.conjunctions import (
        conjunction as conjunction,
        disjunction as disjunction,
        exactly_r as exactly_r,
        r_of_k as r_of_k,
        symmetric as symmetric,
    )
    from synthdp.works.polynomials.decision_list_release import DecisionListRelease as DecisionListRelease
    from synthdp.works.polynomials.decision_lists import (
        DecisionList as DecisionList,
        decision_list_columns as decision_list_columns,
        decision_list_schema as decision_list_schema,
    )
    from synthdp.works.polynomials.fourier_marginals import FourierMarginals as FourierMarginals
    from synthdp.works.polynomials.monomial_release import MonomialRelease as MonomialRelease
    from synthdp.works.polynomials.parity_release import ParityRelease as ParityRelease
    from synthdp.works.polynomials.polynomial_families import (
        AverageFamily as AverageFamily,
        ListFamily as ListFamily,
        PolynomialFamily as PolynomialFamily,
        SymmetricFamily as SymmetricFamily,
        TabulatedFamily as TabulatedFamily,
    )
    from synthdp.works.polynomials.polynomial_release import PolynomialRelease as PolynomialRelease
    from synthdp.works.polynomials.submodular import (
        capped as capped,
        concave_sum as concave_sum,
        coverage as coverage,
    )
    from synthdp.works.smooth.gaussian_kernels import GaussianKernels as GaussianKernels
    from synthdp.works.smooth.summary import SmoothSummary as SmoothSummary
    from synthdp.works.smooth.synthesis import SmoothSynthesis as SmoothSynthesis
    from synthdp.works.sparse.mwem import SparseMWEM as SparseMWEM
    from synthdp.works.sparse.projection import SparseProjection as SparseProjection
    from synthdp.works.sparse.stability_histogram import StabilityHistogram as StabilityHistogram
    from synthdp.works.sparse.weights import SparseWeights as SparseWeights, resume_session as resume_session

__version__ = "0.1.0"

_HOME = {
    "PolynomialRelease": "synthdp.works.polynomials.polynomial_release",
    "TabulatedFamily": "synthdp.works.polynomials.polynomial_families",
    "SymmetricFamily": "synthdp.works.polynomials.polynomial_families",
    "PolynomialFamily": "synthdp.works.polynomials.polynomial_families",
    "ListFamily": "synthdp.works.polynomials.polynomial_families",
    "AverageFamily": "synthdp.works.polynomials.polynomial_families",
    "AdaptiveMarginals": "synthdp.mechanisms.adaptive.adaptive_marginals",
    "ApproxDP": "synthdp.privacy.loss",
    "Automatic": "synthdp.mechanisms.automatic",
    "Boolean": "synthdp.schema.columns",
    "CalendarDate": "synthdp.schema.constraints",
    "Categorical": "synthdp.schema.columns",
    "CellQueries": "synthdp.queries.explicit",
    "Combinations": "synthdp.schema.constraints",
    "Continuous": "synthdp.schema.columns",
    "CsvFormat": "synthdp.schema.csv_format",
    "CsvSource": "synthdp.tables.sources.csv",
    "Curator": "synthdp.curator.curator",
    "DatabaseRelease": "synthdp.estimators.database_release",
    "DatabaseSchema": "synthdp.schema.database",
    "Date": "synthdp.schema.columns",
    "Datetime": "synthdp.schema.columns",
    "Decimal": "synthdp.schema.columns",
    "DecisionList": "synthdp.works.polynomials.decision_lists",
    "DecisionListRelease": "synthdp.works.polynomials.decision_list_release",
    "Derived": "synthdp.schema.derived",
    "DomainDiscretizer": "synthdp.estimators.transformers",
    "DuckDBSource": "synthdp.tables.sources.duckdb",
    "Duration": "synthdp.schema.columns",
    "ExcelSource": "synthdp.tables.sources.excel",
    "Forbidden": "synthdp.schema.constraints",
    "FourierMarginals": "synthdp.works.polynomials.fourier_marginals",
    "GaussianAnswers": "synthdp.mechanisms.direct_answers",
    "GaussianDP": "synthdp.privacy.loss",
    "GaussianKernels": "synthdp.works.smooth.gaussian_kernels",
    "Identifier": "synthdp.schema.columns",
    "Iff": "synthdp.schema.constraints",
    "Implies": "synthdp.schema.constraints",
    "Integer": "synthdp.schema.columns",
    "InteractiveMechanism": "synthdp.works.net.interactive",
    "IterativeConstruction": "synthdp.mechanisms.iterative",
    "KeyList": "synthdp.queries.supports",
    "L1Fit": "synthdp.mechanisms.l1_fit",
    "LaplaceAnswers": "synthdp.mechanisms.direct_answers",
    "Ledger": "synthdp.curator.ledger",
    "LessEqual": "synthdp.schema.constraints",
    "MWEM": "synthdp.works.net.mwem",
    "Marginals": "synthdp.queries.marginals",
    "MedianMechanism": "synthdp.works.net.median_mechanism",
    "MonomialRelease": "synthdp.works.polynomials.monomial_release",
    "NeverFalls": "synthdp.schema.sibling_rules",
    "RowsPerParent": "synthdp.schema.sibling_rules",
    "UniquePerParent": "synthdp.schema.sibling_rules",
    "NetMechanism": "synthdp.works.net.net",
    "NoiseLaw": "synthdp.measurements",
    "Ordinal": "synthdp.schema.columns",
    "Time": "synthdp.schema.columns",
    "ParityRelease": "synthdp.works.polynomials.parity_release",
    "ParquetSource": "synthdp.tables.sources.parquet",
    "Plan": "synthdp.planning.plan",
    "PrivateBoosting": "synthdp.works.net.private_boosting",
    "PrivateMultiplicativeWeights": "synthdp.works.net.private_multiplicative_weights",
    "Progress": "synthdp.progress",
    "PureDP": "synthdp.privacy.loss",
    "Receipt": "synthdp.privacy.receipt",
    "Relation": "synthdp.schema.relation",
    "Release": "synthdp.release",
    "Schema": "synthdp.schema.schema",
    "SmoothSummary": "synthdp.works.smooth.summary",
    "SmoothSynthesis": "synthdp.works.smooth.synthesis",
    "SparkSource": "synthdp.tables.sources.spark",
    "SparseConjunction": "synthdp.queries.supports",
    "SparseMWEM": "synthdp.works.sparse.mwem",
    "SparseProjection": "synthdp.works.sparse.projection",
    "SparseWeights": "synthdp.works.sparse.weights",
    "SqlSource": "synthdp.tables.sources.sql",
    "StabilityHistogram": "synthdp.works.sparse.stability_histogram",
    "Support": "synthdp.queries.supports",
    "SyntheticRelease": "synthdp.estimators.synthetic_release",
    "TableFormat": "synthdp.tables.format",
    "TrainOnSynthetic": "synthdp.estimators.train_on_synthetic",
    "TrigonometricFeatures": "synthdp.estimators.transformers",
    "ZCDP": "synthdp.privacy.loss",
    "alpha_net_size": "synthdp.works.net.net",
    "capped": "synthdp.works.polynomials.submodular",
    "combine": "synthdp.answers.samples",
    "compare": "synthdp.nonprivate.compare",
    "concave_sum": "synthdp.works.polynomials.submodular",
    "conjunction": "synthdp.works.polynomials.conjunctions",
    "correlation": "synthdp.answers.questions",
    "count": "synthdp.answers.questions",
    "coverage": "synthdp.works.polynomials.submodular",
    "decision_list_columns": "synthdp.works.polynomials.decision_lists",
    "decision_list_schema": "synthdp.works.polynomials.decision_lists",
    "domain_of": "synthdp.domain.discretize",
    "disjunction": "synthdp.works.polynomials.conjunctions",
    "exactly_r": "synthdp.works.polynomials.conjunctions",
    "load": "synthdp.storage",
    "marginal": "synthdp.answers.questions",
    "mean": "synthdp.answers.questions",
    "overlap": "synthdp.tables.keys",
    "net_bound": "synthdp.works.net.net",
    "draft": "synthdp.nonprivate.draft",
    "nonprivate_evaluate": "synthdp.nonprivate.evaluate",
    "nonprivate_risk": "synthdp.nonprivate.risk",
    "plan": "synthdp.planning.dry_run",
    "quantile": "synthdp.answers.questions",
    "r_of_k": "synthdp.works.polynomials.conjunctions",
    "required_size": "synthdp.works.net.net",
    "resume_session": "synthdp.works.sparse.weights",
    "regression": "synthdp.answers.questions",
    "save": "synthdp.storage",
    "share": "synthdp.answers.questions",
    "smooth": "synthdp.answers.questions",
    "sparse_conjunction": "synthdp.queries.supports",
    "sum": "synthdp.answers.questions",
    "symmetric": "synthdp.works.polynomials.conjunctions",
    "variance": "synthdp.answers.questions",
    "write_csv": "synthdp.tables.sources.csv",
}

_EXTRAS = {"DuckDBSource": "duckdb,arrow", "ParquetSource": "arrow", "SparkSource": "spark,arrow", "SqlSource": "sql"}
"""Names that need more than the plain installation; `from synthdp import *` leaves them out."""

__all__ = [
    "MWEM",
    "ZCDP",
    "AdaptiveMarginals",
    "ApproxDP",
    "Automatic",
    "AverageFamily",
    "Boolean",
    "CalendarDate",
    "Categorical",
    "CellQueries",
    "Combinations",
    "Continuous",
    "CsvFormat",
    "CsvSource",
    "Curator",
    "DatabaseRelease",
    "DatabaseSchema",
    "Date",
    "Datetime",
    "Decimal",
    "DecisionList",
    "DecisionListRelease",
    "Derived",
    "DomainDiscretizer",
    "Duration",
    "ExcelSource",
    "Forbidden",
    "FourierMarginals",
    "GaussianAnswers",
    "GaussianDP",
    "GaussianKernels",
    "Identifier",
    "Iff",
    "Implies",
    "Integer",
    "InteractiveMechanism",
    "IterativeConstruction",
    "KeyList",
    "L1Fit",
    "LaplaceAnswers",
    "Ledger",
    "LessEqual",
    "ListFamily",
    "Marginals",
    "MedianMechanism",
    "MonomialRelease",
    "NetMechanism",
    "NeverFalls",
    "NoiseLaw",
    "Ordinal",
    "ParityRelease",
    "Plan",
    "PolynomialFamily",
    "PolynomialRelease",
    "PrivateBoosting",
    "PrivateMultiplicativeWeights",
    "Progress",
    "PureDP",
    "Receipt",
    "Relation",
    "Release",
    "RowsPerParent",
    "Schema",
    "SmoothSummary",
    "SmoothSynthesis",
    "SparseConjunction",
    "SparseMWEM",
    "SparseProjection",
    "SparseWeights",
    "StabilityHistogram",
    "Support",
    "SymmetricFamily",
    "SyntheticRelease",
    "TableFormat",
    "TabulatedFamily",
    "Time",
    "TrainOnSynthetic",
    "TrigonometricFeatures",
    "UniquePerParent",
    "__version__",
    "alpha_net_size",
    "capped",
    "combine",
    "compare",
    "concave_sum",
    "conjunction",
    "correlation",
    "count",
    "coverage",
    "decision_list_columns",
    "decision_list_schema",
    "disjunction",
    "domain_of",
    "draft",
    "exactly_r",
    "load",
    "marginal",
    "mean",
    "net_bound",
    "nonprivate_evaluate",
    "nonprivate_risk",
    "overlap",
    "plan",
    "quantile",
    "r_of_k",
    "regression",
    "required_size",
    "resume_session",
    "save",
    "share",
    "smooth",
    "sparse_conjunction",
    "sum",
    "symmetric",
    "variance",
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
