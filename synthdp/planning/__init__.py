"""Cost and expected accuracy of a release, before any budget is spent: a dry run on a simulated table."""

from synthdp.planning.dry_run import plan as plan
from synthdp.planning.plan import Plan as Plan, Plans as Plans
