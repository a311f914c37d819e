"""What a release will cost and how good it will be, before anything is spent: a rehearsal on a made-up table."""

from synthdp.rehearsal.plan import Plan as Plan
from synthdp.rehearsal.rehearse import plan as plan
