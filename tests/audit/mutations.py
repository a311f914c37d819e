"""Broken builds: each takes one promise away by a small edit, and a named test must notice.

    python tests/audit/mutations.py [--write docs/audit/mutations.md]

The package and its tests are copied to a scratch folder, one edit is made there, and the named tests are run on the copy:
they must pass before the edit and at least one must fail after it.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Mutation:
    """One edit, and the tests that must notice it."""

    name: str
    requirement: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    def apply(self, root: Path) -> None:
        path = root / "synthdp" / self.file
        text = path.read_text(encoding="utf-8")
        if text.count(self.old) != 1:
            raise ValueError(f"{self.name}: the text to replace occurs {text.count(self.old)} times in {self.file}")
        path.write_text(text.replace(self.old, self.new), encoding="utf-8")


MUTATIONS = (
    Mutation(
        "half the scale of Laplace noise",
        "R4, R19",
        "privacy/calibration.py",
        "noise.laplace_scale(norms.l1, epsilon=epsilon), k, norms.l1",
        "noise.laplace_scale(norms.l1, epsilon=epsilon) / 2, k, norms.l1",
        ("tests/privacy/test_room.py::test_replacing_a_row_costs_twice_the_noise_of_adding_one",),
    ),
    Mutation(
        "half the scale of Gaussian noise",
        "R4, R19",
        "privacy/calibration.py",
        "accounting.discrete_gaussian_sigma(resolution * l2, mu=mu))",
        "accounting.discrete_gaussian_sigma(resolution * l2, mu=mu)) / 2",
        ("tests/privacy/test_room.py::test_an_account_lies_inside_its_approximate_budget",),
    ),
    Mutation(
        "the sampler draws with two thirds of the scale",
        "R4",
        "privacy/noise.py",
        "measurement = dp.make_laplace(dp.int_vector, dp.l1, scale=float(scale))\n",
        "measurement = dp.make_laplace(dp.int_vector, dp.l1, scale=float(scale) / 1.5)\n",
        ("tests/statistical/test_noise_laws.py::test_noise_follows_its_exact_law_and_no_other_scale",),
    ),
    Mutation(
        "half the scale of a selection",
        "R7",
        "curator/curator.py",
        "epsilon=_pure_epsilon(loss), monotonic=False)",
        "epsilon=_pure_epsilon(loss), monotonic=True)",
        ("tests/privacy/test_net_law.py::test_the_mechanism_hands_over_these_scores_with_this_scale",),
    ),
    Mutation(
        "half the noise of the sparse vector",
        "R7",
        "privacy/above_threshold.py",
        "noise.laplace_scale(2 * together * norms.l1, epsilon=epsilon - level)",
        "noise.laplace_scale(together * norms.l1, epsilon=epsilon - level)",
        ("tests/unit/curator/test_sparse_vector.py::test_the_parts_of_a_plan_cost_no_more_than_the_whole",),
    ),
    Mutation(
        "the sparse vector raises alarms for ever",
        "R8",
        "curator/sparse_vector.py",
        "_State(before.alarms + 1, None",
        "_State(before.alarms, None",
        ("tests/unit/curator/test_sparse_vector.py::test_no_more_alarms_are_raised_than_were_paid_for",),
    ),
    Mutation(
        "max_rows_per_unit forgotten in the sensitivity",
        "R11",
        "privacy/neighbors.py",
        "else bounds.swap\n        return one.times(self.rows)",
        "else bounds.swap\n        return one",
        ("tests/privacy/test_attacks.py::test_the_noise_grows_with_the_rows_of_a_unit",),
    ),
    Mutation(
        "a unit's rows are not limited",
        "R11",
        "curator/contribution.py",
        "kept[order] = _place_in_run(np.diff(owner[order]) != 0) < rows",
        "kept[order] = _place_in_run(np.diff(owner[order]) != 0) >= 0",
        ("tests/unit/curator/test_contribution.py::test_removing_a_unit_changes_at_most_so_many_rows",),
    ),
    Mutation(
        "the rows of a unit are counted anew in every block",
        "R11",
        "curator/contribution.py",
        "        seen[identity] = seen.get(identity, 0) + int(count)\n",
        "        seen[identity] = 0\n",
        ("tests/unit/curator/test_contribution.py::test_the_first_rows_of_a_unit_depend_on_no_other_unit",),
    ),
    Mutation(
        "replacing a row is charged like adding one",
        "R12",
        "privacy/neighbors.py",
        "one = bounds.one if self.neighbors is Neighbors.ADD_REMOVE else bounds.swap",
        "one = bounds.one",
        ("tests/privacy/test_room.py::test_replacing_a_row_costs_twice_the_noise_of_adding_one",),
    ),
    Mutation(
        "a table's cells count once however many tables",
        "R5",
        "queries/marginals.py",
        "        c = len(self.cliques)\n        return RecordBounds(Norms(c, c, 1)",
        "        c = 1\n        return RecordBounds(Norms(c, c, 1)",
        ("tests/contracts/test_queries.py::test_adding_any_record_changes_the_answers_within_the_bounds",),
    ),
    Mutation(
        "levels are read from the data",
        "R1",
        "curator/discovery.py",
        "return noise.laplace_threshold(counts, scale=plan.scale, threshold=plan.threshold)",
        "return dict(counts)",
        ("tests/unit/curator/test_discovery.py::test_a_value_of_one_row_is_never_a_level",),
    ),
    Mutation(
        "the threshold of a stability histogram is too low",
        "R1",
        "privacy/key_histogram.py",
        "return HistogramPlan(scale=scale, threshold=threshold, sensitivity=moved.l1)",
        "return HistogramPlan(scale=scale, threshold=max(1, threshold // 2), sensitivity=moved.l1)",
        (
            "tests/unit/privacy/test_key_histogram.py::test_the_promise_holds_on_neighbours_and_the_threshold_is_nearly_the_least",
        ),
    ),
    Mutation(
        "whole numbers past the bounds are not clipped",
        "R2",
        "domain/encoder.py",
        "inside = np.clip(values.astype(np.int64), first, last)",
        "inside = values.astype(np.int64)",
        ("tests/unit/domain/test_encoder.py::test_infinities_are_clipped_and_nan_is_missing",),
    ),
    Mutation(
        "the exact number of rows is used",
        "R3",
        "mechanisms/smooth/domain.py",
        "    if account.adjacency.rows_are_public:\n",
        "    if True:\n        return RowCount(float(max(1, account._vault._table.rows())), 0.0, ())\n    if False:\n",
        ("tests/privacy/test_mechanism_traces.py::test_neighbours_give_the_same_trace_and_the_same_release",),
    ),
    Mutation(
        "the number of rows is given to whoever asks",
        "R3",
        "curator/curator.py",
        "        if not self.adjacency.rows_are_public:\n            raise PrivacyError(",
        "        if False:\n            raise PrivacyError(",
        ("tests/privacy/test_room.py::test_the_number_of_rows_is_private_under_add_remove_only",),
    ),
    Mutation(
        "noise is reused",
        "R8",
        "privacy/noise.py",
        "def _noised(measurement: Any, values: IntArray, *, unit: float) -> IntArray:\n",
        "_DRAWN: dict[Any, Any] = {}\n\n\n"
        "def _noised(measurement: Any, values: IntArray, *, unit: float) -> IntArray:\n"
        "    key = (len(values), float(measurement.map(unit)))\n"
        "    _DRAWN.setdefault(key, np.asarray(measurement(np.zeros_like(values)), dtype=np.int64))\n"
        "    return np.clip(values, -LARGEST_VALUE, LARGEST_VALUE) + _DRAWN[key]\n\n\n"
        "def _drawn_anew(measurement: Any, values: IntArray, *, unit: float) -> IntArray:\n",
        ("tests/privacy/test_noise_is_unseeded.py::test_seeding_every_generator_does_not_repeat_noise",),
    ),
    Mutation(
        "noise is drawn twice and the nearer kept",
        "R8",
        "curator/curator.py",
        "            return noise.discrete_laplace(values, scale=scale)\n",
        "            drawn = [noise.discrete_laplace(values, scale=scale) for _ in range(2)]\n"
        "            return min(drawn, key=lambda one: int(np.abs(one - values).sum()))\n",
        ("tests/privacy/test_room.py::test_noise_is_drawn_once_for_a_spend",),
    ),
    Mutation(
        "a seed reaches noise",
        "R6",
        "privacy/noise.py",
        "bits=secrets.randbits)",
        "bits=__import__('random').getrandbits)",
        ("tests/privacy/test_noise_is_unseeded.py::test_seeding_every_generator_does_not_repeat_noise",),
    ),
    Mutation(
        "a product that wraps is noised",
        "R5",
        "curator/curator.py",
        "np.clip(exact, -most, most) * resolution",
        "exact * resolution",
        ("tests/privacy/test_attacks.py::test_sums_too_large_for_the_lattice_are_clipped_and_never_wrap",),
    ),
    Mutation(
        "equal moments of several zones are one level",
        "R5",
        "tables/columns/parse.py",
        'return type(value), value, shown(value) if isinstance(value, (dt.datetime, dt.time)) else ""',
        'return type(value), value, ""',
        ("tests/privacy/test_one_row_moves_one_row.py::test_one_row_changes_one_record_key_by_one",),
    ),
    Mutation(
        "the ledger is not charged",
        "R13",
        "curator/curator.py",
        "            entry = self._charge(item.loss, what=item.step)\n",
        "            self._account.charge(item.loss)\n            entry = None\n",
        ("tests/privacy/test_room.py::test_the_ledger_is_charged_before_the_data_is_read",),
    ),
    Mutation(
        "the ledger is charged after reading",
        "R13",
        "curator/curator.py",
        "            entry = self._charge(item.loss, what=item.step)\n"
        "            self._vault.items.append(item)\n            result = answer(table)\n",
        "            result = answer(table)\n            entry = self._charge(item.loss, what=item.step)\n"
        "            self._vault.items.append(item)\n",
        ("tests/privacy/test_room.py::test_the_ledger_is_charged_before_the_data_is_read",),
    ),
    Mutation(
        "an account is opened for nothing",
        "R13",
        "curator/curator.py",
        '        entry = self._charge(loss, what="account")\n',
        "        entry = None\n",
        ("tests/contracts/test_mechanisms.py::test_the_cost_is_known_first_and_is_what_curator_and_ledger_lost",),
    ),
    Mutation(
        "a budget that is used up goes on",
        "R19",
        "privacy/budget.py",
        "if sum(part[i] for part in self.spent) > whole[i] * (1 + ROUNDING):",
        "if False:",
        ("tests/privacy/test_room.py::test_a_spend_takes_exactly_what_it_says_and_no_more_is_given",),
    ),
    Mutation(
        "a cap is not looked at",
        "R13",
        "curator/ledger.py",
        "            if spent + asked[i] > whole * (1 + ROUNDING):",
        "            if spent > whole * (1 + ROUNDING):",
        ("tests/privacy/test_room.py::test_eight_processes_race_for_a_cap_of_three",),
    ),
    Mutation(
        "a spend counts only when it is committed",
        "R13",
        "curator/ledger.py",
        '"SELECT loss FROM spends WHERE dataset = ?"',
        "\"SELECT loss FROM spends WHERE state = 'committed' AND dataset = ?\"",
        ("tests/privacy/test_room.py::test_a_process_killed_between_reserve_and_commit_has_spent",),
    ),
    Mutation(
        "the lattice of Gaussian noise is free",
        "R19",
        "privacy/accounting.py",
        "math.hypot(sensitivity / mu * (1 + 2 * _SLACK), math.sqrt(_BLUR))",
        "sensitivity / mu",
        ("tests/unit/privacy/test_closed_forms.py::test_the_noise_of_a_gaussian_loss_costs_no_more_and_hardly_less",),
    ),
    Mutation(
        "a closed curator reads on",
        "R20",
        "curator/private_table.py",
        "        self.source, self._keys = None, {}\n",
        "",
        ("tests/privacy/test_room.py::test_a_closed_curator_reads_no_more",),
    ),
    Mutation(
        "a curator can be pickled",
        "R15",
        "curator/curator.py",
        '        raise PrivacyError("a curator holds private rows and cannot be pickled or copied")',
        '        return "Curator"',
        ("tests/privacy/test_room.py::test_a_curator_can_be_neither_pickled_nor_copied",),
    ),
    Mutation(
        "the estimator keeps its table",
        "R15",
        "estimators/synthetic_release.py",
        "        self.schema_ = release.output.schema\n",
        "        self.schema_ = release.output.schema\n        self._table = X\n",
        ("tests/privacy/test_attacks.py::test_the_pickle_of_an_estimator_does_not_grow_with_its_table",),
    ),
    Mutation(
        "record keys count all rows of a unit",
        "R11",
        "curator/private_table.py",
        "                    raw = {name: rows_of(raw[name], kept) for name in columns}\n",
        "                    raw = {name: raw[name] for name in columns}\n",
        ("tests/unit/curator/test_spill.py::test_record_keys_count_at_most_so_many_rows_of_a_unit",),
    ),
    Mutation(
        "a selection is charged after it was made",
        "R13",
        "curator/curator.py",
        "        return int(self._spend(item, lambda table: choose(table.exact(scores), scale=scale)))\n",
        "        found = int(choose(self._vault._table.exact(scores), scale=scale))\n"
        "        return self._spend(item, lambda _: found)\n",
        ("tests/privacy/test_room.py::test_every_question_is_charged_before_the_data_is_read",),
    ),
    Mutation(
        "a comparison with the real table is not stamped",
        "R14",
        "nonprivate/evaluate.py",
        '        lines = [self.warning, ""]\n',
        '        lines = [""]\n',
        ("tests/unit/nonprivate/test_evaluate.py::test_everything_it_gives_is_stamped",),
    ),
    Mutation(
        "the arrays of a release may hold pickles",
        "R16",
        "storage.py",
        "np.load(io.BytesIO(packed), allow_pickle=False)",
        "np.load(io.BytesIO(packed), allow_pickle=True)",
        ("tests/unit/test_storage.py::test_nothing_in_the_arrays_is_unpickled",),
    ),
    Mutation(
        "the checksum of a release is not looked at",
        "R16",
        "storage.py",
        'if document.get("arrays_sha256") != hashlib.sha256(packed).hexdigest():',
        "if False:",
        ("tests/unit/test_storage.py::test_a_bit_that_flipped_is_noticed",),
    ),
    Mutation(
        "what was declared is not said",
        "R21",
        "privacy/assumptions.py",
        "*_declared(declared), ",
        "",
        ("tests/audit/test_requirements.py::test_what_was_declared_stands_in_the_receipt",),
    ),
    Mutation(
        "a large epsilon is not warned of",
        "R23",
        "estimators/synthetic_release.py",
        "        if self.epsilon > LARGE_EPSILON:\n",
        "        if False:\n",
        ("tests/e2e/test_doors.py::test_a_huge_epsilon_warns_and_goes_on",),
    ),
    Mutation(
        "formulas in a CSV file are not escaped",
        "R25",
        "tables/sources/csv.py",
        "and _FORMULA.match(cell) else cell",
        "and not cell else cell",
        ("tests/unit/tables/sources/test_csv.py::test_no_text_starts_as_a_formula_once_escaped",),
    ),
    Mutation(
        "threads that share a curator spend at the same time",
        "R13",
        "curator/vault.py",
        "        with self._lock:\n            yield self._table\n",
        "        if True:\n            yield self._table\n",
        (
            "tests/unit/curator/test_threads.py::test_threads_that_measure_at_once_are_answered_until_the_budget_is_spent",
        ),
    ),
    Mutation(
        "an error names the table's own columns",
        "R9",
        "curator/private_table.py",
        "the schema has: {', '.join(schema)}",
        "the table has: {', '.join(source.names)}",
        ("tests/privacy/test_attacks.py::test_a_file_without_a_header_is_refused_without_a_value",),
    ),
)


def caught(mutation: Mutation) -> bool:
    """Whether a named test fails on the broken build."""
    with _copy() as root:
        mutation.apply(root)
        return _status(root, mutation.tests) == 1


def sound() -> bool:
    """Whether all named tests pass on the build as it is."""
    with _copy() as root:
        return _status(root, sorted({test for mutation in MUTATIONS for test in mutation.tests})) == 0


class _copy:  # noqa: N801 - a context manager
    def __enter__(self) -> Path:
        self.folder = tempfile.TemporaryDirectory(prefix="synthdp-mutation-")
        root = Path(self.folder.name)
        for name in ("synthdp", "tests", "docs/audit", "docs/explanation"):  # pages that tests read
            shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
        for name in ("pyproject.toml", "README.md"):
            shutil.copy(ROOT / name, root / name)
        return root

    def __exit__(self, *_: object) -> None:
        self.folder.cleanup()


def _status(root: Path, tests: Iterator[str] | tuple[str, ...] | list[str]) -> int:
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", *tests]
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1", "PYTHONPATH": str(root)}
    ran = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False, timeout=900)
    return ran.returncode


def table(outcomes: list[bool]) -> str:
    """The table of the documentation."""
    lines = [
        "# Broken builds, and who notices",
        "",
        "Made by `python tests/audit/mutations.py --write docs/audit/mutations.md`.  Each row is one edit to a copy of the",
        "package that takes a promise away; the tests named pass on the package and at least one fails on the copy.",
        f"Caught: {sum(outcomes)} of {len(outcomes)}.",
        "",
        "| broken build | requirement | file | test | caught |",
        "|---|---|---|---|---|",
    ]
    for mutation, found in zip(MUTATIONS, outcomes, strict=True):
        tests = ", ".join(f"`{test.removeprefix('tests/')}`" for test in mutation.tests)
        lines.append(
            f"| {mutation.name} | {mutation.requirement} | `{mutation.file}` | {tests} | {'yes' if found else '**NO**'} |"
        )
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path)
    parser.add_argument("--only", help="part of the names of the builds to try; nothing is written then")
    arguments = parser.parse_args()
    if arguments.only is not None:
        found = {mutation.name: caught(mutation) for mutation in MUTATIONS if arguments.only in mutation.name}
        sys.stdout.write(f"{found}\n")
        return 0 if all(found.values()) else 1
    if not sound():
        sys.stdout.write("the named tests do not pass on the package as it is\n")
        return 1
    with ThreadPoolExecutor(2) as pool:
        outcomes = list(pool.map(caught, MUTATIONS))
    text = table(outcomes)
    sys.stdout.write(text)
    if arguments.write is not None:
        arguments.write.parent.mkdir(parents=True, exist_ok=True)
        arguments.write.write_text(text, encoding="utf-8")
    return 0 if all(outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
