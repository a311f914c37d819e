"""Broken builds: each takes one promise away by a small edit, and a named test must notice.

    python tests/audit/mutations.py [--write docs/audit/mutations.md]

The package and its tests are copied to a scratch folder, one edit is made there, and the named tests are run on the copy:
they must pass before the edit and at least one must fail after it.

An edit finds its place by the syntax tree: within the function or class of a name, wherever that lies in the package, the
one expression, or run of statements, that is the same program.  So neither a move nor a new line break breaks it.
"""

from __future__ import annotations

import argparse
import ast
import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).parents[2]
_NAMED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


@dataclass(frozen=True)
class Mutation:
    """One edit, and the tests that must notice it."""

    name: str
    requirement: str
    place: str
    """Name of a function or class, such as ``Curator.measure``; after its module where others have the same name."""
    old: str
    new: str
    tests: tuple[str, ...]
    needs: str = ""
    """A package or program without which its tests are skipped, so that the build is not tried."""

    @property
    def can_be_tried(self) -> bool:
        """Whether what its tests need is installed."""
        if not self.needs or find_spec(self.needs) is not None:
            return True
        places = [os.environ.get("PATH", os.defpath), *map(str, Path("/").glob("usr/lib/postgresql/*/bin"))]
        return shutil.which(self.needs, path=os.pathsep.join(places)) is not None

    @property
    def file(self) -> str:
        """The file it edits, below the package."""
        return definitions()[whole_name(self.place)].relative_to(ROOT / "synthdp").as_posix()

    def apply(self, root: Path) -> None:
        path = root / "synthdp" / self.file
        tree = ast.parse(path.read_text(encoding="utf-8"))
        module = f"synthdp/{self.file}".removesuffix(".py").replace("/", ".")
        names = whole_name(self.place).removeprefix(f"{module}.").split(".")
        found = replaced(defined(tree, names), statements(self.old), statements(self.new))
        if found != 1:
            raise ValueError(f"{self.name}: what is to be replaced occurs {found} times in {self.place}")
        path.write_text(ast.unparse(ast.fix_missing_locations(tree)), encoding="utf-8")


@cache
def definitions() -> dict[str, Path]:
    """The file of every function and class of the package, by its whole name."""
    found = {}
    for path in sorted((ROOT / "synthdp").rglob("*.py")):
        module = path.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".")
        for name in _names(ast.parse(path.read_text(encoding="utf-8"))):
            found[f"{module}.{name}"] = path
    return found


def whole_name(place: str) -> str:
    """The one whole name that ends with a place."""
    found = [name for name in definitions() if name.endswith(f".{place}")]
    if len(found) != 1:
        raise ValueError(f"{place} must be one definition, not {found}")
    return found[0]


def _names(node: ast.AST, prefix: str = "") -> Iterator[str]:
    for child in getattr(node, "body", []):
        if isinstance(child, _NAMED):
            yield prefix + child.name
            yield from _names(child, f"{prefix}{child.name}.")


def defined(node: ast.AST, names: list[str]) -> ast.AST:
    """The function or class below a node, by its names from the outermost to the innermost."""
    for name in names:
        inside = [n for n in getattr(node, "body", []) if isinstance(n, _NAMED)]
        node = next(n for n in inside if n.name == name)
    return node


def statements(text: str) -> list[ast.stmt]:
    """A piece of program as statements."""
    return ast.parse(textwrap.dedent(text)).body


def replaced(node: ast.AST, old: list[ast.stmt], new: list[ast.stmt]) -> int:
    """Replace one piece of program by another everywhere below a node; return how often."""
    expression = len(old) == 1 and isinstance(old[0], ast.Expr)
    count = 0
    for parent in list(ast.walk(node)):
        for field, value in ast.iter_fields(parent):
            if expression and isinstance(value, ast.expr) and same(value, old[0].value):
                setattr(parent, field, new[0].value)
                count += 1
            elif isinstance(value, list):
                if expression:
                    for i, item in enumerate(value):
                        if isinstance(item, ast.expr) and same(item, old[0].value):
                            value[i] = new[0].value
                            count += 1
                statement = not expression and all(isinstance(item, ast.stmt) for item in value)
                places = range(len(value) - len(old), -1, -1) if statement else ()
                for i in places:
                    if all(same(a, b) for a, b in zip(value[i : i + len(old)], old, strict=True)):
                        value[i : i + len(old)] = new or [ast.Pass()]
                        count += 1
    return count


def same(one: ast.AST, other: ast.AST) -> bool:
    """Whether two pieces are the same program text; what is read or written there is told by the context around."""
    return type(one) is type(other) and _text(one) == _text(other)


def _text(node: ast.AST) -> str:
    return ast.dump(node).replace("ctx=Store()", "ctx=Load()")


MUTATIONS = (
    Mutation(
        "a table's cells count once however many tables",
        "R5",
        "Marginals.bounds",
        "len(self.cliques)",
        "1",
        (
            "tests/contracts/test_queries.py::test_bounds_hold_for_every_shape_and_unit_beside_the_empty_and_the_largest_table",
        ),
    ),
    Mutation(
        "half the scale of Laplace noise",
        "R4, R19",
        "calibration.calibrate",
        "noise.laplace_scale(norms.l1, epsilon=epsilon)",
        "noise.laplace_scale(norms.l1, epsilon=epsilon) / 2",
        ("tests/privacy/test_room.py::test_replacing_a_row_costs_twice_the_noise_of_adding_one",),
    ),
    Mutation(
        "half the scale of Gaussian noise",
        "R4, R19",
        "calibration._gaussian",
        "max(float(LEAST_SIGMA), accounting.discrete_gaussian_sigma(resolution * l2, mu=mu))",
        "max(float(LEAST_SIGMA), accounting.discrete_gaussian_sigma(resolution * l2, mu=mu)) / 2",
        ("tests/privacy/test_room.py::test_an_account_lies_inside_its_approximate_budget",),
    ),
    Mutation(
        "the sampler draws with two thirds of the scale",
        "R4",
        "discrete_laplace",
        "float(scale)",
        "float(scale) / 1.5",
        ("tests/statistical/test_noise_laws.py::test_noise_follows_its_exact_law_and_no_other_scale",),
    ),
    Mutation(
        "half the scale of a selection",
        "R7",
        "calibration.plan_selection",
        "noise.noisy_max_scale(linf, epsilon=epsilon, monotonic=False)",
        "noise.noisy_max_scale(linf, epsilon=epsilon, monotonic=True)",
        ("tests/privacy/test_net_law.py::test_the_mechanism_hands_over_these_scores_with_this_scale",),
    ),
    Mutation(
        "half the noise of the sparse vector",
        "R7",
        "privacy.above_threshold._plan",
        "noise.laplace_scale(2 * together * norms.l1, epsilon=epsilon - level)",
        "noise.laplace_scale(together * norms.l1, epsilon=epsilon - level)",
        ("tests/unit/curator/test_sparse_vector.py::test_the_parts_of_a_plan_cost_no_more_than_the_whole",),
    ),
    Mutation(
        "the sparse vector answers above the threshold for ever",
        "R8",
        "SparseVector.ask",
        "before.alarms + 1",
        "before.alarms",
        ("tests/unit/curator/test_sparse_vector.py::test_no_more_alarms_are_raised_than_were_paid_for",),
    ),
    Mutation(
        "max_rows_per_unit forgotten in the sensitivity",
        "R11",
        "Adjacency.sensitivity",
        "one.times(self.rows)",
        "one",
        ("tests/privacy/test_attacks.py::test_the_noise_grows_with_the_rows_of_a_unit",),
    ),
    Mutation(
        "a unit's rows are not limited",
        "R11",
        "kept_rows",
        "place_in_run(np.diff(owner[order]) != 0) < rows",
        "place_in_run(np.diff(owner[order]) != 0) >= 0",
        ("tests/unit/curator/test_contribution.py::test_removing_a_unit_changes_at_most_so_many_rows",),
    ),
    Mutation(
        "the rows of a unit are counted anew in every block",
        "R11",
        "first_rows",
        "seen.get(identity, 0) + int(count)",
        "0",
        ("tests/unit/curator/test_contribution.py::test_the_first_rows_of_a_unit_depend_on_no_other_unit",),
    ),
    Mutation(
        "replacing a row is charged like adding one",
        "R12",
        "Adjacency.sensitivity",
        "bounds.one if self.neighbors is Neighbors.ADD_REMOVE else bounds.swap",
        "bounds.one",
        ("tests/privacy/test_room.py::test_replacing_a_row_costs_twice_the_noise_of_adding_one",),
    ),
    Mutation(
        "levels are read from the data",
        "R1",
        "_with_levels.answer",
        "plan.noised(counts)",
        "dict(counts)",
        ("tests/unit/curator/test_discovered_levels.py::test_a_value_of_one_row_is_never_a_level",),
    ),
    Mutation(
        "the threshold of a stability histogram is too low",
        "R1",
        "plan_histogram",
        "HistogramPlan(scale=scale, threshold=threshold, sensitivity=float(moved.l1))",
        "HistogramPlan(scale=scale, threshold=max(1, threshold // 2), sensitivity=float(moved.l1))",
        (
            "tests/unit/privacy/test_key_histogram.py::test_the_promise_holds_on_neighbours_and_the_threshold_is_nearly_the_least",
        ),
    ),
    Mutation(
        "a count that equals the threshold is left out of the delta",
        "R1",
        "gaussian_threshold_delta",
        "float(threshold) - (rows - keys + 1) * float(resolution)",
        "float(threshold) + 1 - (rows - keys + 1) * float(resolution)",
        (
            "tests/unit/privacy/test_thresholded_gaussian.py::test_the_delta_is_never_below_the_chance_that_a_unit_of_its_own_keys_is_seen",
        ),
    ),
    Mutation(
        "an exchanged unit has one delta for two sets of keys",
        "R12",
        "key_histogram._gaussian",
        "loss.delta / 2 if adjacency.rows_are_public else loss.delta",
        "loss.delta",
        ("tests/unit/privacy/test_thresholded_gaussian.py::test_a_plan_keeps_both_numbers_of_its_loss",),
    ),
    Mutation(
        "thresholds are paid from a delta that was spent already",
        "R1",
        "gaussian_account",
        "loss.delta - aside",
        "loss.delta",
        (
            "tests/unit/privacy/test_thresholded_gaussian.py::test_what_is_set_aside_for_thresholds_and_what_is_not_make_the_promise",
        ),
    ),
    Mutation(
        "many keys of one unit are bounded by the fewest of them",
        "R11",
        "gaussian_threshold_delta",
        "np.append(keys[1:] - 1, rows)",
        "keys",
        (
            "tests/unit/privacy/test_thresholded_gaussian.py::test_the_delta_of_a_unit_of_many_rows_is_bounded_for_every_number_of_keys",
        ),
    ),
    Mutation(
        "what noise hides is left out though nothing else is left",
        "R34",
        "discovery._without",
        "len(hidden) == len(schema)",
        "len(hidden) > len(schema)",
        (
            "tests/unit/curator/test_discovery.py::test_where_nothing_is_found_of_any_column_it_stays_as_one_that_can_be_coded",
        ),
    ),
    Mutation(
        "what noise hides is left out though it is needed",
        "R34",
        "discovery._without",
        "rest if takes(rest) else schema",
        "rest",
        ("tests/unit/curator/test_discovery.py::test_a_hidden_column_stays_if_what_follows_cannot_do_without_it",),
    ),
    Mutation(
        "a unit has one key of its own however many rows",
        "R11",
        "gaussian_threshold_delta",
        "most * tail",
        "tail",
        (
            "tests/unit/privacy/test_thresholded_gaussian.py::test_the_delta_is_never_below_the_chance_that_a_unit_of_its_own_keys_is_seen",
        ),
    ),
    Mutation(
        "one far value makes a floating-point warning",
        "R9",
        "encoder.encode",
        "np.errstate(all='ignore')",
        "np.errstate(all='warn')",
        ("tests/unit/domain/test_encoder.py::test_encoding_is_total",),
    ),
    Mutation(
        "whole numbers past the bounds are not clipped",
        "R2",
        "encoder._whole",
        "np.clip(values.astype(np.int64), first, last)",
        "values.astype(np.int64)",
        ("tests/unit/domain/test_encoder.py::test_infinities_are_clipped_and_nan_is_missing",),
    ),
    Mutation(
        "the exact number of rows is used",
        "R3",
        "count_rows",
        """
if account.adjacency.rows_are_public:
    return RowCount(float(max(1, account.rows)), 0.0, ())
""",
        """
with account._vault.turn() as table:
    return RowCount(float(max(1, table.rows())), 0.0, ())
""",
        ("tests/privacy/test_mechanism_traces.py::test_neighbours_give_the_same_trace_and_the_same_release",),
    ),
    Mutation(
        "the number of rows is given to whoever asks",
        "R3",
        "Curator.rows",
        "not self.adjacency.rows_are_public",
        "False",
        ("tests/privacy/test_room.py::test_the_number_of_rows_is_private_under_add_remove_only",),
    ),
    Mutation(
        "noise is reused",
        "R8",
        "privacy.noise._noised",
        "return np.asarray(measurement(clipped), dtype=np.int64)",
        """
known = globals().setdefault('_DRAWN', {})
key = (len(values), float(measurement.map(unit)))
known.setdefault(key, np.asarray(measurement(np.zeros_like(values)), dtype=np.int64))
return clipped + known[key]
""",
        ("tests/privacy/test_noise_is_unseeded.py::test_seeding_every_generator_does_not_repeat_noise",),
    ),
    Mutation(
        "noise is drawn twice and the nearer kept",
        "R8",
        "Calibration.noised",
        "return noise.discrete_laplace(values, scale=self.noise.scale)",
        """
drawn = [noise.discrete_laplace(values, scale=self.noise.scale) for _ in range(2)]
return min(drawn, key=lambda one: int(np.abs(one - values).sum()))
""",
        ("tests/privacy/test_room.py::test_noise_is_drawn_once_for_a_spend",),
    ),
    Mutation(
        "a seed reaches noise",
        "R6",
        "noise.linf_knorm",
        "secrets.randbits",
        "__import__('random').getrandbits",
        ("tests/privacy/test_noise_is_unseeded.py::test_seeding_every_generator_does_not_repeat_noise",),
    ),
    Mutation(
        "a product that wraps is noised",
        "R5",
        "Calibration.noised",
        "np.clip(exact, -most, most)",
        "exact",
        ("tests/privacy/test_attacks.py::test_sums_too_large_for_the_lattice_are_clipped_and_never_wrap",),
    ),
    Mutation(
        "the ledger is not charged",
        "R13",
        "Curator._spend_each",
        "entries.append(self._charge(item.loss, what=item.step))",
        "self._account.charge(item.loss)",
        ("tests/privacy/test_room.py::test_the_ledger_is_charged_before_the_data_is_read",),
    ),
    Mutation(
        "the ledger is charged after reading",
        "R13",
        "Curator._spend_each",
        """
for item in items:
    entries.append(self._charge(item.loss, what=item.step))
    self._vault.items.append(item)
result = answer(table)
""",
        """
result = answer(table)
for item in items:
    entries.append(self._charge(item.loss, what=item.step))
    self._vault.items.append(item)
""",
        ("tests/privacy/test_room.py::test_the_ledger_is_charged_before_the_data_is_read",),
    ),
    Mutation(
        "an account is opened for nothing",
        "R13",
        "Curator.open_account",
        "self._charge(loss, what='account')",
        "None",
        ("tests/contracts/test_mechanisms.py::test_the_cost_is_known_first_and_is_what_curator_and_ledger_lost",),
    ),
    Mutation(
        "a budget that is used up goes on",
        "R19",
        "Account.charge",
        "sum((part[i] for part in self.spent)) > whole[i] * (1 + ROUNDING)",
        "False",
        ("tests/privacy/test_room.py::test_a_spend_takes_exactly_what_it_says_and_no_more_is_given",),
    ),
    Mutation(
        "a cap is not looked at",
        "R13",
        "Ledger._check",
        "spent + asked[i]",
        "spent",
        ("tests/privacy/test_room.py::test_eight_processes_race_for_a_cap_of_three",),
    ),
    Mutation(
        "a spend counts only when it is committed",
        "R13",
        "Ledger._spent",
        "'SELECT loss FROM spends WHERE dataset = ?'",
        "\"SELECT loss FROM spends WHERE state = 'committed' AND dataset = ?\"",
        ("tests/privacy/test_room.py::test_a_process_killed_between_reserve_and_commit_has_spent",),
    ),
    Mutation(
        "the lattice of Gaussian noise is free",
        "R19",
        "discrete_gaussian_sigma",
        "math.hypot(sensitivity / mu * (1 + 2 * _SLACK), math.sqrt(_BLUR))",
        "sensitivity / mu",
        ("tests/unit/privacy/test_closed_forms.py::test_the_noise_of_a_gaussian_loss_costs_no_more_and_hardly_less",),
    ),
    Mutation(
        "a closed curator reads on",
        "R20",
        "PrivateTable.close",
        "self.source, self._keys = (None, {})",
        "",
        ("tests/privacy/test_room.py::test_a_closed_curator_reads_no_more",),
    ),
    Mutation(
        "a curator can be pickled",
        "R15",
        "Curator.__reduce__",
        "raise PrivacyError('a curator holds private rows and cannot be pickled or copied')",
        "return 'Curator'",
        ("tests/privacy/test_room.py::test_a_curator_can_be_neither_pickled_nor_copied",),
    ),
    Mutation(
        "the estimator keeps its table",
        "R15",
        "SyntheticRelease._fit",
        "self.schema_ = model.schema",
        """
self.schema_ = model.schema
self._table = X
""",
        ("tests/privacy/test_attacks.py::test_the_pickle_of_an_estimator_does_not_grow_with_its_table",),
    ),
    Mutation(
        "record keys count all rows of a unit",
        "R11",
        "PrivateTable.key_counts",
        "rows_of(raw[name], kept)",
        "raw[name]",
        ("tests/unit/curator/test_spill.py::test_record_keys_count_at_most_so_many_rows_of_a_unit",),
    ),
    Mutation(
        "a selection is charged after it was made",
        "R13",
        "Curator.select",
        "return int(self._spend(item, lambda table: plan.choose(table.exact(scores), scale=plan.scale)))",
        """
found = int(plan.choose(self._vault._table.exact(scores), scale=plan.scale))
return self._spend(item, lambda _: found)
""",
        ("tests/privacy/test_room.py::test_every_question_is_charged_before_the_data_is_read",),
    ),
    Mutation(
        "a comparison with the real table is not stamped",
        "R14",
        "NonprivateEvaluation.__str__",
        "[self.warning, '']",
        "['']",
        ("tests/unit/nonprivate/test_evaluate.py::test_everything_it_gives_is_stamped",),
    ),
    Mutation(
        "the arrays of a release may hold pickles",
        "R16",
        "storage._unpack",
        "np.load(io.BytesIO(packed), allow_pickle=False)",
        "np.load(io.BytesIO(packed), allow_pickle=True)",
        ("tests/unit/test_storage.py::test_nothing_in_the_arrays_is_unpickled",),
    ),
    Mutation(
        "the checksum of a release is not looked at",
        "R16",
        "storage.load",
        "document.get('arrays_sha256') != hashlib.sha256(packed).hexdigest()",
        "False",
        ("tests/unit/test_storage.py::test_a_bit_that_flipped_is_noticed",),
    ),
    Mutation(
        "what was declared is not said",
        "R21",
        "assumptions",
        "(PUBLIC, *_units(adjacency), *_declared(declared), *_open(declared, complete), *_rules(declared))",
        "(PUBLIC, *_units(adjacency), *_open(declared, complete), *_rules(declared))",
        ("tests/audit/test_requirements.py::test_what_was_declared_stands_in_the_receipt",),
    ),
    Mutation(
        "a large epsilon is not warned of",
        "R23",
        "SyntheticRelease._check_settings",
        "self.epsilon > LARGE_EPSILON",
        "False",
        ("tests/e2e/test_doors.py::test_a_huge_epsilon_warns_and_goes_on",),
    ),
    Mutation(
        "formulas in a CSV file are not escaped",
        "R25",
        "_escaped",
        "_FORMULA.match(cell)",
        "not cell",
        ("tests/unit/tables/sources/test_csv.py::test_no_text_starts_as_a_formula_once_escaped",),
    ),
    Mutation(
        "an error names the table's own columns",
        "R9",
        "private_table.check_columns",
        "f\"column {missing[0]!r} is missing; the schema has: {', '.join(schema)}\"",
        "f\"column {missing[0]!r} is missing; the table has: {', '.join(source.names)}\"",
        ("tests/privacy/test_attacks.py::test_a_file_without_a_header_is_refused_without_a_value",),
    ),
    Mutation(
        "rows that come with their labels are released as if their number were private",
        "R31",
        "SyntheticRelease.fit_transform",
        "'replace_one'",
        "self.neighbors",
        ("tests/privacy/test_receipts_keep_their_promise.py::test_what_comes_out_keeps_the_promise_on_the_receipt",),
    ),
    Mutation(
        "real labels beside synthetic rows are not warned of",
        "R31",
        "SyntheticRelease.fit_transform",
        "warnings.warn(UNPAIRED + RESTATED * (self.n_rows is None), UnprotectedLabelsWarning, stacklevel=3)",
        "None",
        (
            "tests/privacy/test_receipts_keep_their_promise.py::test_real_labels_beside_synthetic_rows_are_warned_about_with_a_way_out",
        ),
    ),
    Mutation(
        "the façade forgets what a mechanism said",
        "R32",
        "SyntheticRelease._fit",
        "release.receipt.noted",
        "curator.receipt().noted",
        ("tests/contracts/test_receipts.py::test_the_facades_receipt_holds_all_that_the_mechanisms_receipt_holds",),
    ),
    Mutation(
        "a receipt does not say what a unit is",
        "R32",
        "assumptions",
        "(PUBLIC, *_units(adjacency), *_declared(declared), *_open(declared, complete), *_rules(declared))",
        "(PUBLIC, *_declared(declared), *_open(declared, complete), *_rules(declared))",
        ("tests/contracts/test_receipts.py::test_every_receipt_says_what_is_public_and_what_a_unit_is",),
    ),
    Mutation(
        "a drafted bound is said not to come from the table",
        "R32",
        "_known_from",
        "is_drafted(column)",
        "False",
        (
            "tests/contracts/test_receipts.py::test_no_receipt_says_of_a_drafted_bound_that_it_does_not_come_from_the_table",
        ),
    ),
    Mutation(
        "an account's receipt promises less than was spent",
        "R19, R32",
        "Curator.receipt",
        "self._vault.terms.total",
        "self.budget",
        ("tests/contracts/test_receipts.py::test_an_accounts_receipt_is_its_curators",),
    ),
    Mutation(
        "losses of rows and of persons are added in a ledger",
        "R30",
        "Adjacency.adds_up_with",
        "(self.neighbors, self.unit) == (other.neighbors, other.unit)",
        "self.neighbors == other.neighbors",
        (
            "tests/unit/curator/test_ledger.py::test_an_adversary_who_mixes_relations_is_refused_before_anything_is_spent_or_read",
        ),
    ),
    Mutation(
        "a data set without a ledger is a silent spend",
        "R30",
        "Curator.__init__",
        "dataset is not None and ledger is None",
        "False",
        ("tests/unit/curator/test_ledger.py::test_a_data_set_without_a_ledger_is_refused_before_anything_is_read",),
    ),
    Mutation(
        "a share is refused after it was paid for",
        "R34",
        "SparseMWEM.__post_init__",
        "check_share('total_share', self.total_share)",
        "None",
        ("tests/contracts/test_mechanisms.py::test_a_share_of_nothing_or_of_all_is_refused_when_it_is_set",),
    ),
    Mutation(
        "a mistyped data set is not said aloud",
        "R30",
        "Ledger.reserve",
        "self._warn_uncapped(db, dataset, new=found is None)",
        "None",
        ("tests/unit/curator/test_ledger.py::test_a_mistyped_data_set_is_said_aloud_with_the_name_that_was_meant",),
    ),
    Mutation(
        "threads that ask one watch are answered at the same time",
        "R29",
        "Vault.turn",
        """
with self._lock:
    yield self._table
    self._check_process()
""",
        """
if True:
    yield self._table
    self._check_process()
""",
        (
            "tests/privacy/test_sessions.py::test_threads_that_ask_a_watch_at_once_get_no_more_answers_than_were_paid_for",
        ),
    ),
    Mutation(
        "a forked child spends its copy of a budget",
        "R29",
        "Vault.turn",
        """
self._check_process()
with self._lock:
    yield self._table
    self._check_process()
""",
        """
with self._lock:
    yield self._table
    self._check_process()
""",
        ("tests/privacy/test_processes.py::test_a_forked_child_is_refused_before_anything_is_read_charged_or_written",),
    ),
    Mutation(
        "a fork in mid-question is answered twice",
        "R29",
        "Vault.turn",
        """
self._check_process()
with self._lock:
    yield self._table
    self._check_process()
""",
        """
self._check_process()
with self._lock:
    yield self._table
""",
        ("tests/privacy/test_processes.py::test_a_fork_in_the_middle_of_a_question_answers_it_once",),
    ),
    Mutation(
        "a saved session may be continued for ever",
        "R29",
        "SparseVector.continued",
        "saved.claim()",
        "None",
        ("tests/privacy/test_sessions.py::test_whatever_strikes_while_a_session_is_continued_no_two_can_be_asked",),
    ),
    Mutation(
        "a watch that is asked while it is asked answers once more",
        "R29",
        "SparseVector._exchange",
        "self._state is not before",
        "False",
        (
            "tests/privacy/test_sessions.py::test_a_watch_that_is_asked_while_it_is_asked_gives_no_more_answers_than_were_paid_for",
        ),
    ),
    Mutation(
        "a watch shows the state that hides its level",
        "R28",
        "SparseVector.alarms",
        "self._state.alarms",
        "self._state",
        ("tests/privacy/test_sealed.py::test_no_row_and_no_hidden_noise_can_be_reached_from_a_session",),
    ),
    Mutation(
        "the hidden level is handed to a mechanism",
        "R28",
        "sparse_vector.continued",
        "document.pop('watch', None)",
        "document.get('watch')",
        ("tests/privacy/test_sealed.py::test_neither_can_they_from_a_session_that_is_being_continued",),
    ),
    Mutation(
        "a question about other columns is answered",
        "R33",
        "check_question",
        "axis.column != table.schema.get(axis.name)",
        "False",
        (
            "tests/privacy/test_other_schemas.py::test_a_question_about_columns_declared_otherwise_costs_nothing_reads_nothing_and_tells_nothing",
        ),
    ),
    Mutation(
        "a watch is asked about other columns",
        "R33",
        "cell_total",
        "check_question(table, query)",
        "None",
        ("tests/privacy/test_other_schemas.py::test_a_watch_is_not_asked_about_columns_declared_otherwise",),
    ),
    Mutation(
        "a session saved before its first slot has none",
        "R34",
        "learned",
        "0.0",
        "[]",
        (
            "tests/unit/mechanisms/sparse/test_sparse_weights.py::test_a_session_saved_before_its_first_slot_answers_and_learns",
        ),
    ),
    Mutation(
        "a ledger's commit is not synced to the folder",
        "R30",
        "LedgerFile.writing",
        "'PRAGMA synchronous = EXTRA'",
        "'PRAGMA synchronous = FULL'",
        ("tests/unit/curator/test_ledger_file.py::test_every_commit_syncs_the_file_and_its_folder",),
    ),
    Mutation(
        "an old ledger's spends are taken for those of rows",
        "R30",
        "Ledger._check_known",
        "counted is None",
        "False",
        (
            "tests/unit/curator/test_ledger_file.py::test_nothing_is_added_to_old_spends_before_someone_says_whose_they_are",
        ),
    ),
    Mutation(
        "an allocation gives more than is left",
        "R19",
        "BudgetAllocation.take",
        "0 < share <= self.share + ROUNDING",
        "0 < share",
        ("tests/unit/mechanisms/test_budget.py::test_more_than_is_left_is_refused",),
    ),
    Mutation(
        "squares are summed in 64 bits",
        "R26",
        "column_norms",
        "len(size) * linf ** 2 < LARGEST_WHOLE",
        "True",
        ("tests/unit/queries/test_norms.py::test_many_large_queries_have_the_norms_of_python_integers",),
    ),
    Mutation(
        "norms that no vector has are believed",
        "R26",
        "Norms.__post_init__",
        "not (self.linf <= self.l1 and self.linf ** 2 <= self.l2_squared <= self.l1 * self.linf)",
        "False",
        ("tests/unit/queries/test_norms.py::test_norms_that_no_vector_has_are_refused",),
    ),
    Mutation(
        "the Euclidean norm is rounded down",
        "R26",
        "root_up",
        "Fraction(root) ** 2 < square",
        "False",
        ("tests/unit/queries/test_norms.py::test_the_euclidean_norm_is_rounded_up_and_by_no_more_than_one_step",),
    ),
    Mutation(
        "expectations may wrap",
        "R26",
        "expectations",
        "np.clip(whole_numbers(name, values), -most, most)",
        "whole_numbers(name, values)",
        (
            "tests/contracts/test_queries.py::test_bounds_hold_for_every_shape_and_unit_beside_the_empty_and_the_largest_table",
        ),
    ),
    Mutation(
        "norms are not looked at before noise is made",
        "R26",
        "calibration.calibrate",
        "0 < norms.l1 ** 2 <= k * norms.l2_squared",
        "0 < norms.l1",
        (
            "tests/unit/privacy/test_calibration.py::test_norms_that_no_vector_of_whole_numbers_of_the_length_has_are_not_noised",
        ),
    ),
    Mutation(
        "a narrow integer is multiplied in its own type",
        "R26",
        "_combine",
        "max(math.prod(sizes) - 1, 0, *sizes[1:])",
        "max(math.prod(sizes) - 1, 0)",
        ("tests/unit/queries/test_counting.py::test_tables_at_the_end_of_a_type_are_counted",),
    ),
    Mutation(
        "a query that is asked twice counts once",
        "R26",
        "Subset._at_most",
        "int(np.unique(self.positions, return_counts=True)[1].max())",
        "1",
        (
            "tests/contracts/test_queries.py::test_bounds_hold_for_every_shape_and_unit_beside_the_empty_and_the_largest_table",
        ),
    ),
    Mutation(
        "an account inside an account has the whole budget again",
        "R19",
        "Curator.open_account",
        "Curator(self._vault, budget=inner)",
        "Curator(self._vault, budget=inner if type(inner) is not type(self.budget) else self.budget)",
        (
            "tests/unit/curator/test_accounts.py::test_all_gaussian_noise_of_a_tree_of_accounts_costs_no_more_than_its_root",
        ),
    ),
    Mutation(
        "codes are remembered whatever the question",
        "R11, R27",
        "PrivateTable._cell_codes",
        "known is domain",
        "True",
        ("tests/contracts/test_sources.py::test_a_curator_counts_each_cut_of_the_cells_anew",),
    ),
    Mutation(
        "Spark's cache forgets the contribution bound",
        "R11",
        "SparkSource._encode",
        "self._encoded[0][1:] == (unit, bound)",
        "self._encoded[0][1] == unit",
        ("tests/unit/tables/sources/test_spark.py::test_an_answer_does_not_depend_on_what_was_asked_before",),
        needs="pyspark",
    ),
    Mutation(
        "ids that are no valid texts are one person",
        "R11",
        "contribution._bytes",
        "'surrogatepass'",
        "'replace'",
        ("tests/unit/curator/test_unit_ids.py::test_different_ids_are_different_persons_and_equal_ids_are_one",),
    ),
    Mutation(
        "bytes that are no text decide a refusal",
        "R27",
        "plain.text_of_bytes",
        "raw.decode(errors='surrogateescape')",
        "raw.decode()",
        ("tests/privacy/test_hostile_cells.py::test_hostile_cells_change_their_own_rows_and_nothing_else",),
    ),
    Mutation(
        "a library's error hangs on ours",
        "R9, R27",
        "_InsteadOf.__exit__",
        "refusal.__context__ = None",
        "pass",
        ("tests/privacy/test_attacks.py::test_errors_about_a_file_quote_no_value_even_in_suppressed_causes",),
    ),
    Mutation(
        "a mechanism without a table is run all the same",
        "R34",
        "named.mechanism_given",
        "not isinstance(mechanism, TableMechanism)",
        "False",
        (
            "tests/e2e/test_facade_settings.py::test_a_mechanism_that_yields_no_table_is_refused_before_anything_is_spent",
        ),
    ),
    Mutation(
        "rules that contradict each other are found out after the spend",
        "R34",
        "AdaptiveMarginals._checked",
        "check_rules(schema)",
        "None",
        ("tests/e2e/test_facade_matrix.py::test_a_table_comes_out_or_nothing_is_spent",),
    ),
    Mutation(
        "a release that cannot be replaced is deleted",
        "R34",
        "files._exchange",
        "old.rename(folder)",
        "None",
        ("tests/unit/test_files.py::test_a_folder_that_cannot_be_moved_leaves_what_was_there",),
    ),
    Mutation(
        "a whole number of NumPy fails after the spend",
        "R34",
        "SparseProjection.__post_init__",
        "object.__setattr__(self, 'dimension', check_dimension(self.dimension))",
        "check_dimension(self.dimension)",
        ("tests/contracts/test_mechanisms.py::test_whole_numbers_of_numpy_are_settings_like_those_of_python",),
    ),
    Mutation(
        "values inside a unit are always its first",
        "–",
        "encoder._spread",
        "rng.integers(low, np.minimum(low + grid.width, steps.last + 1))",
        "rng.integers(low, low + 1)",
        ("tests/unit/domain/test_digits.py::test_values_inside_a_grid_point_are_spread_over_all_that_can_occur",),
    ),
    Mutation(
        "what one object is counts twice",
        "R26",
        "discovery._object_bins",
        "return np.asarray(bins[raw.codes[raw.codes >= 0]], np.int64)",
        "return np.repeat(bins[raw.codes[raw.codes >= 0]], 2)",
        (
            "tests/unit/curator/test_discovered_types.py::test_what_one_object_is_moves_the_histogram_by_no_more_than_the_item_says",
        ),
    ),
    Mutation(
        "the digits of one number count twice",
        "R26",
        "noisy_ranges.spacing_bins",
        "return bins",
        "return np.repeat(bins, 2)",
        ("tests/unit/curator/test_discovered_ranges.py::test_histograms_move_by_no_more_than_the_item_says",),
    ),
    Mutation(
        "misfits join the last level",
        "–",
        "coarsening.coarsen",
        "one_way.misfits > 0",
        "False",
        ("tests/contracts/test_misfits.py::test_levels_come_out_in_the_proportions_of_the_values_that_fit",),
    ),
    Mutation(
        "the rows that fit are not scaled to all",
        "–",
        "misfits.without_misfits",
        "margin[np.ix_(*(kept[table.clique[axis]] for axis in part))] * scale",
        "margin[np.ix_(*(kept[table.clique[axis]] for axis in part))]",
        ("tests/contracts/test_misfits.py::test_levels_come_out_in_the_proportions_of_the_values_that_fit",),
    ),
    Mutation(
        "answers count misfits otherwise than the table",
        "–",
        "SpreadLeaves.of",
        "counts * (1 + ratio)",
        "counts",
        ("tests/contracts/test_misfits.py::test_table_answers_and_report_agree_about_levels",),
    ),
    Mutation(
        "a missing value that noise explains is released",
        "–",
        "SyntheticRelease._fit",
        "without_points(release.model, unproven_points(release.model, release.measurements))",
        "release.model",
        ("tests/contracts/test_unproven_values.py::test_a_complete_table_comes_out_complete_and_of_its_own_types",),
    ),
    Mutation(
        "a draft is released before it was reviewed",
        "R32",
        "private_table.private_table",
        "schema.reviewed()",
        "schema",
        ("tests/unit/schema/test_draft.py::test_every_release_refuses_a_draft_until_the_last_column_is_reviewed",),
    ),
    Mutation(
        "the person called Null is missing",
        "R11",
        "csv_fields.read_texts",
        "column is None or column.names_rows",
        "False",
        ("tests/unit/nonprivate/test_one_reader.py::test_the_id_of_a_person_is_never_a_missing_one",),
    ),
    Mutation(
        "a release has other missing texts than its schema",
        "–",
        "resolve.source_of",
        "return table.with_missing(schema.csv.missing)",
        "return table",
        (
            "tests/unit/nonprivate/test_one_reader.py::test_a_table_fits_its_own_draft_and_may_miss_values_where_some_are_missing",
        ),
    ),
    Mutation(
        "a part of a schema forgets its rules",
        "–",
        "CellModel.of",
        "schema.part(domain.names)",
        "Schema({name: schema[name] for name in domain.names})",
        ("tests/contracts/test_rules.py::test_every_synthetic_row_obeys_every_rule_about_its_columns",),
    ),
    Mutation(
        "centuries are leap years",
        "–",
        "rules._calendar",
        "years % 100 != 0",
        "years % 100 != 1",
        ("tests/unit/sampling/test_rules_by_brute_force.py::test_a_row_breaks_a_rule_exactly_if_its_values_do",),
    ),
    Mutation(
        "sums are those of the values before they are written",
        "–",
        "TableFormat.build",
        "_as_shown(library.frame({name: arrays[name]}), name, column)",
        "raw",
        ("tests/e2e/test_derived_columns.py::test_sums_are_exact_in_the_arithmetic_of_the_columns_that_come_out",),
    ),
    Mutation(
        "two replaced records are as far apart as one record and none",
        "R5",
        "Interactions.bounds",
        "norms_of_swap(tuple(sorted(shape)))",
        "norms_of_one(shape)",
        (
            "tests/unit/queries/test_interactions.py::test_the_sensitivity_of_an_interaction_is_what_some_neighbours_attain",
        ),
    ),
    Mutation(
        "a weight counts once in the square of a norm",
        "R5",
        "interactions._together",
        "norms.l2_squared * weight ** 2",
        "norms.l2_squared * weight",
        (
            "tests/unit/queries/test_interactions.py::test_the_sensitivity_of_an_interaction_is_what_some_neighbours_attain",
        ),
    ),
    Mutation(
        "records that differ in a column are taken to agree in it",
        "R5",
        "interactions._factors",
        """
if apart:
    return ((n - 1, -1, 1), (-1, n - 1, 1), (-1, -1, n - 2))
""",
        "",
        (
            "tests/unit/queries/test_interactions.py::test_the_sensitivity_of_an_interaction_is_what_some_neighbours_attain",
        ),
    ),
    Mutation(
        "the noise of an interaction is that of its multiple",
        "–",
        "misfits.noisy_effects",
        "stddev / scale",
        "stddev",
        ("tests/unit/fit/test_misfits.py::test_the_noise_of_an_interaction_is_in_rows",),
    ),
    Mutation(
        "a misfit that replaces a row moves nothing",
        "R5",
        "FittingRows.bounds",
        "RecordBounds(bounds.one, bounds.swap.either(bounds.one))",
        "bounds",
        ("tests/contracts/test_queries.py::test_replacing_any_record_changes_the_answers_within_the_bounds",),
    ),
    Mutation(
        "a net's scores count misfits",
        "–",
        "NetMechanism.release",
        "NetScores(FittingRows(queries), cells, candidates, total.fitting)",
        "NetScores(queries, cells, candidates, total.fitting)",
        ("tests/contracts/test_misfits.py::test_levels_come_out_in_the_proportions_of_the_values_that_fit",),
    ),
    Mutation(
        "no special value is bound by rules",
        "–",
        "values.numbers_at",
        "(indices < grid.regular) | np.isin(indices, _special_points(column, grid))",
        "indices < grid.regular",
        ("tests/unit/sampling/test_rules_by_brute_force.py::test_a_row_breaks_a_rule_exactly_if_its_values_do",),
    ),
    Mutation(
        "a release writes over its own table",
        "R34",
        "cli.main.release",
        "(table, schema_path, ledger)",
        "()",
        (
            "tests/e2e/test_cli_places.py::test_what_would_write_over_a_file_of_the_same_command_is_refused_before_anything_is_spent",
        ),
    ),
    Mutation(
        "every discovered range is called narrow",
        "–",
        "noisy_ranges.is_narrow",
        "return upper - lower <= NARROW * span",
        "return True",
        (
            "tests/unit/curator/test_noisy_ranges.py::test_a_range_that_is_called_narrow_is_never_wider_than_four_times_what_its_numbers_span",
        ),
    ),
    Mutation(
        "answers whose noise is as large as the table pull at nothing",
        "–",
        "l1_fit.pull_of",
        """
if noise >= 1:
    return math.inf
""",
        """
if noise >= 1:
    return 0.0
""",
        (
            "tests/unit/mechanisms/test_l1_fit_statistics.py::test_the_pull_grows_with_the_noise_from_nothing_to_everything",
        ),
    ),
    Mutation(
        "fits to drawn tables forget the products",
        "–",
        "refit._fit",
        "weights *= products.factors(weights / weights.sum(axis=0))",
        "weights *= 1",
        (
            "tests/unit/answers/test_refit.py::test_products_that_the_release_was_fitted_to_the_fits_to_drawn_tables_find_again",
        ),
    ),
    Mutation(
        "counts of keys are not clipped",
        "R5",
        "noise._occurring",
        "max(-LARGEST_VALUE, min(int(counts[key]), LARGEST_VALUE))",
        "int(counts[key])",
        ("tests/unit/privacy/test_noise.py::test_a_count_beyond_the_float_integers_is_clipped",),
    ),
    Mutation(
        "every row of a person counts as one",
        "R5, R11",
        "Persons.shares",
        "one // np.maximum(rows.many, 1)",
        "one + 0 * rows.many",
        (
            "tests/unit/queries/test_person_tables.py::test_a_person_moves_every_table_by_no_more_than_its_norms",
            "tests/audit/test_database_audit.py::test_a_person_moves_all_answers_of_a_release_by_what_the_claim_allows_and_hardly_less",
        ),
    ),
    Mutation(
        "a person is bounded in each table as if there were no other",
        "R5, R11",
        "PersonTables.bounds",
        "one.plus(table.norms(self.layout).times(times))",
        "one.either(table.norms(self.layout).times(times))",
        (
            "tests/unit/queries/test_person_tables.py::test_a_person_moves_all_tables_together_by_no_more_than_their_bounds",
            "tests/audit/test_database_audit.py::test_a_person_moves_all_answers_of_a_release_by_what_the_claim_allows_and_hardly_less",
        ),
    ),
    Mutation(
        "tables are joined outside, and every row is a person of its own",
        "R11",
        "private_database._owners",
        "~every.any(axis=1)",
        "np.ones(len(every), np.bool_)",
        (
            "tests/unit/curator/test_private_database.py::test_removing_a_person_removes_one_record_and_changes_no_other",
            "tests/audit/test_database_audit.py::test_a_person_moves_all_answers_of_a_release_by_what_the_claim_allows_and_hardly_less",
        ),
    ),
    Mutation(
        "steps between rows share one as if there were one fewer",
        "R5, R11",
        "Persons.step_shares",
        "np.maximum(rows.many - before, 1)",
        "np.maximum(rows.many - before - 1, 1)",
        ("tests/unit/queries/test_person_tables.py::test_a_person_moves_every_table_by_no_more_than_its_norms",),
    ),
    Mutation(
        "steps forget the shares of the rows above them",
        "–",
        "Persons.step_shares",
        "self.shares(above)[rows.parent] * weights",
        "1 * weights",
        ("tests/unit/queries/test_person_tables.py::test_some_person_moves_every_table_by_all_that_its_whole_allows",),
    ),
    Mutation(
        "rows of different periods add up to one",
        "R5, R11",
        "PersonTable.norms",
        "one * (math.isqrt(most - 1) + 1)",
        "one",
        ("tests/unit/queries/test_person_tables.py::test_a_person_moves_every_table_by_no_more_than_its_norms",),
    ),
    Mutation(
        "a replaced person moves its tables as far as an added one",
        "R5, R12",
        "PersonTables.bounds",
        "Norms.within(self.k, one.linf, l1=2 * one.l1, l2_squared=2 * one.l2_squared)",
        "one",
        (
            "tests/unit/queries/test_person_tables.py::test_replacing_a_person_moves_all_tables_by_no_more_than_the_bounds_of_a_swap",
        ),
    ),
    Mutation(
        "distances of persons forget the multipliers",
        "R5",
        "PersonDistances.bounds",
        "table.norms(self.queries.layout).l1 * times",
        "table.norms(self.queries.layout).l1",
        ("tests/unit/queries/test_person_tables.py::test_a_person_moves_every_distance_by_no_more_than_its_bounds",),
    ),
    Mutation(
        "a person has as many rows as it likes",
        "R11",
        "private_database._chosen",
        "place_in_run(np.diff(parent[order]) != 0) < kind.at_most",
        "place_in_run(np.diff(parent[order]) != 0) >= 0",
        ("tests/unit/curator/test_private_database.py::test_a_person_with_many_rows_has_those_it_may_have",),
    ),
    Mutation(
        "a row may belong to a row of another person",
        "R11",
        "private_database._named",
        "person.astype(np.uint64)",
        "0 * person.astype(np.uint64)",
        (
            "tests/unit/curator/test_private_database.py::test_a_leaf_belongs_to_the_row_of_its_own_person_that_it_names",
        ),
    ),
    Mutation(
        "persons without a row of the root look like others",
        "R11",
        "private_database.records_of",
        "np.where(np.bincount(owner[0], minlength=persons) == 0, NO_PARENT_ROW, 0)",
        "np.zeros(persons, np.int64)",
        (
            "tests/unit/curator/test_private_database.py::test_a_row_that_no_person_has_makes_a_person_without_a_root_row",
        ),
    ),
    Mutation(
        "all rows without a key are one person",
        "R11",
        "private_database._owners",
        "np.arange(np.count_nonzero(nobody))",
        "0",
        ("tests/unit/curator/test_private_database.py::test_rows_without_a_key_are_persons_of_their_own",),
    ),
    Mutation(
        "several questions are answered without noise",
        "R4",
        "Curator.measure_each",
        "plan.noised(exact)",
        "exact",
        (
            "tests/unit/curator/test_measure_each.py::test_the_answers_and_the_receipt_are_those_of_one_question_after_the_other",
        ),
    ),
    Mutation(
        "of several questions some are paid for, then the rest are refused",
        "R34",
        "Curator._spend_each",
        "trial.charge(item.loss)",
        "None",
        (
            "tests/unit/curator/test_measure_each.py::test_questions_that_cost_more_than_is_left_are_refused_and_nothing_is_spent",
        ),
    ),
    Mutation(
        "a database is asked what it cannot count",
        "R34",
        "private_table.private_table",
        "source.check(schema, unit=adjacency.unit)",
        "None",
        (
            "tests/contracts/test_sql_encoding.py::test_what_cannot_be_counted_there_is_refused_before_anything_is_spent",
        ),
        needs="initdb",
    ),
    Mutation(
        "persons of a database are told apart by clipped moments",
        "R11",
        "Asked.as_name",
        "'CASE WHEN' in self.sql",
        "False",
        (
            "tests/unit/tables/sources/test_sql.py::test_persons_are_told_apart_by_names_that_no_moment_of_python_can_hold",
        ),
        needs="initdb",
    ),
    Mutation(
        "half the scale of the exponential mechanism under a pure epsilon",
        "R7",
        "calibration.plan_selection",
        "_exponential(linf, scale)",
        "_exponential(linf, scale / 2)",
        (
            "tests/privacy/test_net_law.py::test_the_mechanism_hands_these_scores_to_the_exponential_mechanism_with_this_scale",
        ),
    ),
    Mutation(
        "a replaced row of a long list moves it as far as an added one",
        "R5, R12",
        "PrefixCoefficients._exact_bounds",
        "one.times(2)",
        "one",
        ("tests/unit/queries/fourier/test_prefix_coefficients.py::test_the_norms_are_the_largest_of_all_lists",),
    ),
    Mutation(
        "Chebyshev features move by what the paper prints",
        "R5",
        "sensitivity.tensor_swap_l1",
        "t ** (d - 1) * (t + least_kernel(t))",
        "t ** d",
        (
            "tests/unit/queries/smooth/test_sensitivity.py::test_in_one_column_the_largest_change_is_the_one_that_a_search_of_all_pairs_finds",
        ),
    ),
    Mutation(
        "Chebyshev features of several columns move as those of one",
        "R5",
        "sensitivity.tensor_swap_l2_squared",
        "max(2.0 * t, one)",
        "one",
        (
            "tests/unit/queries/smooth/test_sensitivity.py::test_no_pair_of_points_of_a_grid_exceeds_the_bounds_of_several_columns",
        ),
    ),
    Mutation(
        "a law that the budget cannot pay for is found out late",
        "R34",
        "SmoothSynthesis.release",
        "check_law(law_named(self.law), loss)",
        "None",
        (
            "tests/unit/mechanisms/smooth/test_smooth_synthesis.py::test_a_law_that_the_budget_cannot_pay_for_is_refused_before_anything_is_spent",
        ),
    ),
    Mutation(
        "a saved release may be changed",
        "R16",
        "storage.load",
        "document.pop('content_sha256', None) != _content(document)",
        "document.pop('content_sha256', None) is None",
        ("tests/contracts/test_saved_releases.py::test_a_number_that_was_changed_is_noticed",),
    ),
    Mutation(
        "what the library does not know is written into a file",
        "R15",
        "file_forms.written",
        "FORMS.get(kind.__name__) is not kind",
        "False",
        ("tests/unit/test_storage.py::test_what_the_library_does_not_know_has_no_file_form",),
    ),
    Mutation(
        "a ledger takes a key twice",
        "R13",
        "Ledger._check_unspent",
        "row is not None",
        "False",
        ("tests/unit/curator/test_ledger_key.py::test_a_second_spend_under_a_key_is_refused_and_nothing_is_written",),
    ),
    Mutation(
        "a ledger's file takes a key twice",
        "R13",
        "ledger_file._bring_up_to_date",
        "db.execute(statement)",
        "db.execute(statement.replace('UNIQUE ', ''))",
        ("tests/unit/curator/test_ledger_key.py::test_the_file_itself_holds_one_spend_a_key",),
    ),
    Mutation(
        "the page answers under any host name",
        "R28",
        "Guard._refused",
        "headers.getlist('host') != [f'127.0.0.1:{self.port}']",
        "False",
        ("tests/unit/page/test_guard.py::test_a_foreign_host_name_is_refused_although_the_cookie_is_right",),
    ),
    Mutation(
        "the link of the start opens the page twice",
        "R28",
        "Guard._open",
        "self._link = None",
        "",
        ("tests/unit/page/test_guard.py::test_a_used_link_and_a_guessed_one_are_refused",),
    ),
    Mutation(
        "a form needs no origin",
        "R28",
        "Guard._refused",
        "any(origin != self.origin for origin in origins) or (scope['method'] == 'POST' and not origins)",
        "any(origin != self.origin for origin in origins)",
        ("tests/unit/page/test_guard.py::test_a_forged_post_is_refused_and_does_nothing",),
    ),
    Mutation(
        "any token opens a form",
        "R28",
        "Guard._post",
        "len(offered) != 1 or not hmac.compare_digest(offered[0].encode(), self.form.encode())",
        "len(offered) != 1",
        ("tests/unit/page/test_guard.py::test_a_form_that_this_run_did_not_write_is_refused",),
    ),
    Mutation(
        "any cookie opens the page",
        "R28",
        "Guard._refused",
        "any((hmac.compare_digest(crumb.encode(), own.encode()) for crumb in crumbs))",
        "bool(crumbs)",
        ("tests/unit/page/test_guard.py::test_without_the_cookie_of_this_run_nothing_is_shown",),
    ),
    Mutation(
        "the page reads what a link in its folder points at",
        "R28",
        "Project.listed",
        "path.is_file() and path.resolve().parent == self.folder and not path.name.startswith('.')",
        "path.is_file() and not path.name.startswith('.')",
        ("tests/unit/page/test_screens.py::test_no_file_outside_the_folder_can_be_named",),
    ),
    Mutation(
        "a release of other answers than were planned",
        "R34",
        "outcome._button",
        "key is None or site.project.plan is None or site.ledger.entries(key=key)",
        "key is None or site.ledger.entries(key=key)",
        ("tests/unit/page/test_screens.py::test_a_changed_answer_makes_the_plan_stale_and_the_button_dead",),
    ),
    Mutation(
        "a look at a column shows its ends",
        "R2",
        "look._bars",
        "INNER",
        "(0.0, 1.0)",
        ("tests/unit/nonprivate/test_look.py::test_the_ends_of_a_column_of_numbers_are_not_shown",),
    ),
    Mutation(
        "a look at a column shows its rare values",
        "R1",
        "look.look",
        "[(str(value), count / one.rows) for value, count in one.counts.most_common(MOST_SHOWN) if count >= least]",
        "[(str(value), count / one.rows) for value, count in one.counts.most_common(MOST_SHOWN)]",
        ("tests/unit/nonprivate/test_look.py::test_rare_values_are_not_shown_but_counted",),
    ),
)


def caught(mutation: Mutation) -> bool:
    """Whether a named test fails on the broken build, which can be tried."""
    with _copy() as root:
        mutation.apply(root)
        return _status(root, mutation.tests, slow=bool(mutation.needs)) in (1, 2)  # 2: not even collected


def sound() -> bool:
    """Whether all named tests pass on the build as it is."""
    with _copy() as root:
        named = {test for mutation in MUTATIONS if mutation.can_be_tried for test in mutation.tests}
        return _status(root, sorted(named)) == 0


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


def _status(root: Path, tests: tuple[str, ...] | list[str], *, slow: bool = False) -> int:
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-x",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        "--hypothesis-profile",
        "thorough",  # what few random examples may miss must be noticed every time
        *["-m", ""] * slow,
        *tests,
    ]
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1", "PYTHONPATH": str(root)}
    ran = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False, timeout=900)
    return ran.returncode


def table(outcomes: list[bool]) -> str:
    """The table of the documentation."""
    lines = [
        "# Broken builds, and who notices",
        "",
        "Made by `python tests/audit/mutations.py --write docs/audit/mutations.md`.  Each row is one edit to a copy of the",
        "package that takes a promise away (a dash: one of use, not of privacy); the tests named pass on the",
        "package and at least one fails on the copy.",
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
        outcomes = list(pool.map(lambda build: build.can_be_tried and caught(build), MUTATIONS))
    text = table(outcomes)
    sys.stdout.write(text)
    if arguments.write is not None:
        arguments.write.parent.mkdir(parents=True, exist_ok=True)
        arguments.write.write_text(text, encoding="utf-8")
    return 0 if all(outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
