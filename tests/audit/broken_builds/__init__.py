"""Builds of the package that are broken on purpose, by subject; `tests/audit/mutations.py` tries them."""

from __future__ import annotations

from broken_builds import curator, ledger_and_sessions, noise, page, releases, sensitivity, series, tables

MUTATIONS = tuple(
    mutation
    for subject in (sensitivity, noise, curator, ledger_and_sessions, series, tables, releases, page)
    for mutation in subject.MUTATIONS
)
