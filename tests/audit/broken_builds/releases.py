"""Broken builds of releases: mechanisms, fits, answers, files and the estimator."""

from __future__ import annotations

from broken_builds.mutation import Mutation

_ASKED = "tests/privacy/test_mechanism_traces.py::test_what_the_planner_asks_follows_from_earlier_answers_alone"
_EXACT = """
from synthdp.queries.marginals import one_ways as counted
with account._vault.turn() as table:
    exact = [one.astype(np.float64) for one in counted(known.domain).split(table.exact(counted(known.domain)))]
"""
"""What any stage of the planner could do wrong: count the rows in the groups of all columns."""

_LEVELS = """
for level in range(1 + len(known.coarser)):
    ours = [one for one in batch.shares if one.level == level]
    known = _measure_alike(known, account, batch, [one for one in ours if one.noise >= 1])
    known = _measure_alike(known, account, batch, [one for one in ours if one.noise < 1])
"""

MUTATIONS = (
    Mutation(
        "groups are made for the exact number of rows",
        "R3, R8",
        "AdaptiveMarginals._measure_columns",
        """
known = Knowledge.of_columns(
    schema, columns, target=self.public.rows_per_group(target, total=total), left=left,
    pinned=self._pinned(columns), measured=(*count.measurements, *answers, *counted),
    rows=account.rows if account.adjacency.rows_are_public else None,
)
""",
        """
with account._vault.turn() as table:
    known = Knowledge.of_columns(
        schema, columns, target=target, left=left, measured=(*count.measurements, *answers, *counted),
        rows=table.rows(),
    )
""",
        (_ASKED,),
    ),
    Mutation(
        "scores of columns are ranks of the real rows",
        "R8",
        "measure_second_moments",
        "pairs = zip(known.refinements, known.margins, strict=True)",
        f"{_EXACT}pairs = zip(known.refinements, exact, strict=True)",
        (_ASKED,),
    ),
    Mutation(
        "an answer is not taken from what is left",
        "R19",
        "measuring.ask",
        "known.with_answers(found, left=left)",
        "known.with_answers(found, left=known.left)",
        (_ASKED,),
    ),
    Mutation(
        "groups are merged by the real rows in them",
        "R8",
        "measure_tables",
        _LEVELS,
        f"""{_EXACT}
from synthdp.mechanisms.adaptive.merging import merged_domain
known = replace(known, coarser=(merged_domain(known.domain, exact), *known.coarser[1:]))
{_LEVELS}
""",
        (_ASKED,),
    ),
    Mutation(
        "groups of triples are merged by the real rows in them",
        "R8",
        "screen_triples",
        "known = _with_axes(known, workload, share=share, tables=len(triples))",
        f"""{_EXACT}
known = _with_axes(known, workload, share=share, tables=len(triples))
made = []
for axis, before, margin in zip(known.domain.axes, known.coarser[-1].axes, exact):
    of = merged_groups(axis, margin, before.size)
    made.append(Axis(axis.name, axis.column, axis.starts, of[axis.cells]))
known = replace(known, coarser=(*known.coarser[:-1], Domain(tuple(made))))
""",
        (_ASKED,),
    ),
    Mutation(
        "triples are compared with a model of the real number of rows",
        "R3, R8",
        "screen_triples",
        "weights = model.weights * (known.total / model.weights.sum())",
        """
with account._vault.turn() as table:
    weights = model.weights * (table.rows() / model.weights.sum())
""",
        (_ASKED,),
    ),
    Mutation(
        "a second round is compared with a model of the real number of rows",
        "R3, R8",
        "screen_against_model",
        "weights = model.weights * (known.total / model.weights.sum())",
        """
with account._vault.turn() as table:
    weights = model.weights * (table.rows() / model.weights.sum())
""",
        (_ASKED,),
    ),
    Mutation(
        "a wide table is compared with the real rows of its columns",
        "R8",
        "measure_wide",
        "margins = known.margins",
        f"{_EXACT}margins = exact",
        (_ASKED,),
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
        "the estimator keeps its table",
        "R15",
        "SyntheticRelease._fit",
        "self.schema_ = self.release_.output.schema",
        """
self.schema_ = self.release_.output.schema
self._table = X
""",
        ("tests/privacy/test_attacks.py::test_the_pickle_of_an_estimator_does_not_grow_with_its_table",),
    ),
    Mutation(
        "the arrays of a release may hold pickles",
        "R16",
        "release_files._unpack",
        "np.load(io.BytesIO(content), allow_pickle=False)",
        "np.load(io.BytesIO(content), allow_pickle=True)",
        ("tests/unit/test_storage.py::test_nothing_in_the_arrays_is_unpickled",),
    ),
    Mutation(
        "the checksum of a release is not looked at",
        "R16",
        "release_files.read",
        "document.get('arrays_sha256') != hashlib.sha256(content).hexdigest()",
        "False",
        ("tests/unit/test_storage.py::test_a_bit_that_flipped_is_noticed",),
    ),
    Mutation(
        "a large epsilon is not warned of",
        "R23",
        "findings.checked_loss",
        "estimator.epsilon > LARGE_EPSILON",
        "False",
        ("tests/e2e/test_doors.py::test_a_huge_epsilon_warns_and_goes_on",),
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
        "warnings.warn(UNPAIRED + RESTATED * (self.n_rows is None), UnprotectedLabelsWarning, stacklevel=4)",
        "None",
        (
            "tests/privacy/test_receipts_keep_their_promise.py::test_real_labels_beside_synthetic_rows_are_warned_about_with_a_way_out",
        ),
    ),
    Mutation(
        "the façade forgets what a mechanism said",
        "R32",
        "_suited",
        "release.receipt.noted",
        "replace(release.receipt, notes=()).noted",
        ("tests/contracts/test_receipts.py::test_the_facades_receipt_holds_all_that_the_mechanisms_receipt_holds",),
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
        "an allocation gives more than is left",
        "R19",
        "BudgetAllocation.take",
        "0 < share <= self.share + ROUNDING",
        "0 < share",
        ("tests/unit/mechanisms/test_budget.py::test_more_than_is_left_is_refused",),
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
        "misfits join the last level",
        "–",
        "column_groups.coarsen",
        "one_way.misfits > 0",
        "False",
        ("tests/contracts/test_misfits.py::test_levels_come_out_in_the_proportions_of_the_values_that_fit",),
    ),
    Mutation(
        "the rows that fit are not scaled to all",
        "–",
        "OutOfDomain.remove",
        "margin[np.ix_(*(releasable[table.clique[axis]] for axis in part))] * scale",
        "margin[np.ix_(*(releasable[table.clique[axis]] for axis in part))]",
        ("tests/contracts/test_misfits.py::test_levels_come_out_in_the_proportions_of_the_values_that_fit",),
    ),
    Mutation(
        "answers count misfits otherwise than the table",
        "–",
        "InDomainFineBins.of",
        "counts * (1 + ratio)",
        "counts",
        ("tests/contracts/test_misfits.py::test_table_answers_and_report_agree_about_levels",),
    ),
    Mutation(
        "a missing value that noise explains is released",
        "–",
        "SyntheticRelease._fit",
        "without_points(model, list(unproven))",
        "model",
        ("tests/contracts/test_unproven_values.py::test_a_complete_table_comes_out_complete_and_of_its_own_types",),
    ),
    Mutation(
        "a missing value of several tables that noise explains is released",
        "–",
        "DatabaseRelease._without_unproven_values",
        "without_places(model, unproven)",
        "model",
        (
            "tests/databases/test_unproven_values_of_rows.py::test_clean_tables_come_out_without_a_missing_value_or_an_invented_label",
        ),
    ),
    Mutation(
        "missing values of all periods have the noise of one",
        "–",
        "unproven_places",
        "max(stddev, 1e-9) * math.sqrt(len(noisy))",
        "max(stddev, 1e-9)",
        ("tests/databases/test_unproven_values_of_rows.py::test_of_nobody_anything_is_found_once_in_a_hundred_times",),
    ),
    Mutation(
        "a missing value that is left out is not there for sure",
        "–",
        "DatabaseAsker._with_unseen",
        "np.nan_to_num(self._left_out(asked, features.size)) / STUDENT",
        "0.0",
        (
            "tests/databases/test_unproven_values_of_rows.py::test_few_missing_values_do_not_come_out_and_their_intervals_hold_them_and_none",
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
        "the noise of an interaction is that of its multiple",
        "–",
        "Interactions.noisy_tables",
        "stddev / scale",
        "stddev",
        ("tests/unit/fit/test_misfits.py::test_the_noise_of_an_interaction_is_in_rows",),
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
        "a release writes over its own table",
        "R34",
        "cli.main.release",
        "(table, schema_path, ledger, public, *totals)",
        "()",
        (
            "tests/cli/test_cli_places.py::test_what_would_write_over_a_file_of_the_same_command_is_refused_before_anything_is_spent",
        ),
    ),
    Mutation(
        "answers whose noise is as large as the table pull at nothing",
        "–",
        "explicit.problem.pull_of",
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
        "refitted_points._fit",
        "weights *= products.factors(weights / weights.sum(axis=0))",
        "weights *= 1",
        (
            "tests/unit/answers/test_refit.py::test_products_that_the_release_was_fitted_to_the_fits_to_drawn_tables_find_again",
        ),
    ),
    Mutation(
        "a law that the budget cannot pay for is found out late",
        "R34",
        "SmoothSynthesis.release",
        "check_law(law_named(self.law), loss)",
        "None",
        (
            "tests/unit/works/smooth/test_smooth_synthesis.py::test_a_law_that_the_budget_cannot_pay_for_is_refused_before_anything_is_spent",
        ),
    ),
    Mutation(
        "a saved release may be changed",
        "R16",
        "release_files.read",
        "document.pop('content_sha256', None) != _content(document)",
        "document.pop('content_sha256', None) is None",
        ("tests/contracts/test_saved_releases.py::test_a_number_that_was_changed_is_noticed",),
    ),
    Mutation(
        "what no file could hold is found out after the spend",
        "R15",
        "direct_answers._asked",
        "check_saved(queries)",
        "None",
        ("tests/unit/test_codec.py::test_what_could_not_be_saved_is_refused_before_the_spend",),
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
        "a summary reads whole numbers at the middles of cells",
        "–",
        "SmoothSummary",
        "scaled_points(axis)",
        "axis.points",
        ("tests/unit/works/smooth/test_smooth_domain.py::test_a_declared_bound_is_an_end_of_the_interval",),
    ),
    Mutation(
        "a bound takes the cells of a column as fine as was asked",
        "–",
        "_fineness",
        "axis.grid.regular // longest",
        "math.inf",
        ("tests/unit/works/smooth/test_smooth_domain.py::test_no_value_is_read_further_off_than_the_cells_say",),
    ),
    Mutation(
        "a parent row may have fewer rows than its rule says",
        "–",
        "kept_among",
        "stays &= many[parent] >= at_least",
        "stays &= many[parent] >= 0",
        ("tests/databases/test_rules_among_rows.py::test_every_database_that_is_drawn_obeys_its_rules",),
    ),
    Mutation(
        "a heap that a condition cuts through has no error",
        "–",
        "cut_point_mass_errors",
        "np.asarray(uneven * np.sqrt(sums), np.float64)",
        "np.zeros(len(sums))",
        ("tests/unit/answers/test_uneven.py::test_a_condition_that_cuts_through_heaps_is_held_wherever_they_lie",),
    ),
    Mutation(
        "the interval of a quantile goes beyond its leaf",
        "–",
        "quantile_intervals",
        "np.minimum(shares + half, most)",
        "shares + half",
        ("tests/unit/answers/test_uneven.py::test_where_rows_lie_within_a_leaf_moves_a_quantile_within_that_leaf",),
    ),
    Mutation(
        "half of what a merged table says is fitted",
        "–",
        "Dual.masked",
        "potentials[table.clique][cells]",
        "potentials[table.clique][cells] * 0.5",
        ("tests/unit/fit/test_max_entropy.py::test_the_sweeps_reach_the_optimum_of_tables_of_merged_codes",),
    ),
    Mutation(
        "interactions alone are measured where noise is Laplace's",
        "–",
        "Knowledge.relative_noise",
        "self.left.exponent != 0.5 or any(self.misfits[j] > 0 for j in clique)",
        "any(self.misfits[j] > 0 for j in clique)",
        (
            "tests/unit/mechanisms/adaptive/test_merging.py::test_interactions_alone_are_measured_where_noise_is_gaussian_and_no_column_has_misfits",
        ),
    ),
    Mutation(
        "groups of rank go by one period's heaps",
        "–",
        "asked_tables.grouping_of",
        "total > total.sum() / 2",
        "inside[0] > inside[0].sum() / 2",
        (
            "tests/unit/mechanisms/related/test_groupings.py::test_groups_of_equal_rank_are_the_same_groups_in_all_periods",
        ),
    ),
    Mutation(
        "interactions of pairs are measured and not fitted",
        "–",
        "OutOfDomain.consistent",
        "[self.inside(table) for table in tables]",
        "[self.inside(table) for table in tables if not table.alone]",
        (
            "tests/unit/mechanisms/adaptive/test_flagship_wishes.py::test_pairs_of_which_the_interaction_alone_was_measured_come_through",
        ),
    ),
    Mutation(
        "whole tables are measured where one-ways are known",
        "–",
        "Knowledge.relative_noise",
        "signal(self.left, self.total) < ONE_WAYS_KNOWN",
        "signal(self.left, self.total) > ONE_WAYS_KNOWN",
        (
            "tests/unit/mechanisms/adaptive/test_merging.py::test_interactions_of_all_groups_are_measured_where_one_ways_are_known",
        ),
    ),
    Mutation(
        "scores tell how far a tail reaches",
        "–",
        "second_moments.scores",
        "ranks[order] = np.cumsum(share[order]) - share[order] / 2",
        "ranks[order] = values[order]",
        ("tests/unit/mechanisms/adaptive/test_second_moments.py::test_scores_do_not_tell_how_far_a_tail_reaches",),
    ),
    Mutation(
        "pairs are chosen by scores that are noise",
        "–",
        "shares.screening_part",
        "noise * part**-budget.exponent < LOUDEST_SCORE",
        "True",
        (
            "tests/unit/mechanisms/adaptive/test_stages.py::test_where_scores_would_be_noise_alone_single_columns_get_everything",
        ),
    ),
    Mutation(
        "a noisy count of rows outweighs the histograms",
        "–",
        "_pooled_total",
        "float(np.average(sums, weights=precisions))",
        "total",
        ("tests/unit/mechanisms/adaptive/test_stages.py::test_a_noisy_count_of_rows_does_not_outweigh_the_histograms",),
    ),
    Mutation(
        "unrelated columns count as related",
        "–",
        "energies",
        "none = likelihoods.none(posterior)",
        "none = np.zeros(len(scores))",
        ("tests/unit/mechanisms/adaptive/test_energies.py::test_where_nothing_is_related_nothing_is_expected",),
    ),
    Mutation(
        "a node of a hierarchy is split into others' children",
        "R3",
        "ColumnTree._cuts",
        'step[np.searchsorted(step, start, side="right") : np.searchsorted(step, stop)]',
        'step[np.searchsorted(step, start, side="right") :]',
        (
            "tests/unit/mechanisms/adaptive/test_hierarchies.py::test_only_the_groups_of_a_group_with_rows_are_counted_at_the_next_step",
        ),
    ),
    Mutation(
        "classes of round numbers pass for bins",
        "–",
        "GLSEstimates._histograms_by_name",
        "axis.groups_of(fine[axis.name]) is None",
        "False",
        (
            "tests/unit/mechanisms/adaptive/test_rounding.py::test_answers_take_no_notice_of_classes_as_if_they_were_bins",
        ),
    ),
    Mutation(
        "noise makes heaps at the roundest numbers",
        "–",
        "column_rounding.rounded",
        "np.abs(counts - held @ parts) > BEYOND * stddev",
        "np.abs(counts - held @ parts) > 0",
        ("tests/unit/mechanisms/adaptive/test_rounding.py::test_counts_that_noise_explains_change_nothing",),
    ),
    Mutation(
        "straight relations that nobody measured are in no bar",
        "–",
        "unmeasured_correlation_errors",
        "CORRELATION_STDDEV * min(1.0, most)",
        "0.0",
        ("tests/unit/answers/test_straight.py::test_only_pairs_that_were_not_measured_are_open",),
    ),
    Mutation(
        "the nearest columns of a question are its own",
        "–",
        "column_subset.nearest_columns",
        "return tuple(sorted(found))",
        "return tuple(sorted(asked))",
        ("tests/unit/answers/test_part.py::test_the_nearest_columns_are_those_measured_with_the_ones_asked",),
    ),
    Mutation(
        "correlations change beyond what columns can have",
        "–",
        "regression._changed",
        "change = change / 2",
        "return gram + change",
        ("tests/unit/answers/test_straight.py::test_changed_correlations_are_those_of_some_columns",),
    ),
)
