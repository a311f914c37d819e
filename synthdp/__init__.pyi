# Every public name of the package, once, with the module that defines it; `__init__.py` reads this list.

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
from synthdp.answers.raked_weights import rake_weights as rake_weights
from synthdp.answers.samples import combine as combine
from synthdp.codec import saved_as as saved_as
from synthdp.curator import Curator as Curator, Ledger as Ledger
from synthdp.domain.domain import domain_of as domain_of
from synthdp.estimators.database_release import DatabaseRelease as DatabaseRelease
from synthdp.estimators.panel_series import PanelSeries as PanelSeries
from synthdp.estimators.release_series import ReleaseSeries as ReleaseSeries
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
from synthdp.planning.database_plan import plan as plan
from synthdp.planning.plan import Plan as Plan
from synthdp.privacy.loss import ZCDP as ZCDP, ApproxDP as ApproxDP, GaussianDP as GaussianDP, PureDP as PureDP
from synthdp.privacy.receipt import Receipt as Receipt
from synthdp.progress import Progress as Progress
from synthdp.queries.linear import CellQueries as CellQueries
from synthdp.queries.marginals import Marginals as Marginals
from synthdp.queries.supports import (
    KeyList as KeyList,
    SparseConjunction as SparseConjunction,
    Support as Support,
    sparse_conjunction as sparse_conjunction,
)
from synthdp.release import Release as Release, load as load, save as save
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
    Weight as Weight,
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
from synthdp.tables.format import TableFormat as TableFormat
from synthdp.tables.keys import overlap as overlap
from synthdp.tables.sources.csv import CsvSource as CsvSource, write_csv as write_csv
from synthdp.tables.sources.duckdb import DuckDBSource as DuckDBSource
from synthdp.tables.sources.excel import ExcelSource as ExcelSource
from synthdp.tables.sources.parquet import ParquetSource as ParquetSource
from synthdp.tables.sources.spark import SparkSource as SparkSource
from synthdp.tables.sources.sql import SqlSource as SqlSource
from synthdp.tables.sources.sql_database import SqlDatabase as SqlDatabase
from synthdp.works.net.mwem import MWEM as MWEM
from synthdp.works.net.net import (
    NetMechanism as NetMechanism,
    alpha_net_size as alpha_net_size,
    net_bound as net_bound,
    required_size as required_size,
)
from synthdp.works.net.online import InteractiveMechanism as InteractiveMechanism
from synthdp.works.net.online_mechanisms import (
    MedianMechanism as MedianMechanism,
    PrivateMultiplicativeWeights as PrivateMultiplicativeWeights,
)
from synthdp.works.net.private_boosting import PrivateBoosting as PrivateBoosting
from synthdp.works.polynomials.decision_list_release import DecisionListRelease as DecisionListRelease
from synthdp.works.polynomials.decision_lists import (
    DecisionList as DecisionList,
    decision_list_columns as decision_list_columns,
    decision_list_schema as decision_list_schema,
)
from synthdp.works.polynomials.fourier_marginals import FourierMarginals as FourierMarginals
from synthdp.works.polynomials.literal_queries import (
    capped as capped,
    concave_sum as concave_sum,
    conjunction as conjunction,
    coverage as coverage,
    disjunction as disjunction,
    exactly_r as exactly_r,
    r_of_k as r_of_k,
    symmetric as symmetric,
)
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
from synthdp.works.smooth.kernels import GaussianKernels as GaussianKernels
from synthdp.works.smooth.summary import SmoothSummary as SmoothSummary
from synthdp.works.smooth.synthesis import SmoothSynthesis as SmoothSynthesis
from synthdp.works.sparse.projection import SparseProjection as SparseProjection
from synthdp.works.sparse.sparse_mwem import SparseMWEM as SparseMWEM
from synthdp.works.sparse.sparse_weights import SparseWeights as SparseWeights, resume_session as resume_session
from synthdp.works.sparse.stability_histogram import StabilityHistogram as StabilityHistogram

__version__: str
