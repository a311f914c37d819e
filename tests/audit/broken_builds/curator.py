"""Broken builds of the curator: whose rows are read, after which charge, with which noise."""

from __future__ import annotations

from broken_builds.mutation import Mutation

MUTATIONS = (
    Mutation(
        "a unit's rows are not limited",
        "R11",
        "contribution._smallest",
        "place_in_run(np.diff(owner[order]) != 0) < rows",
        "place_in_run(np.diff(owner[order]) != 0) >= 0",
        ("tests/unit/curator/test_contribution.py::test_removing_a_unit_changes_at_most_so_many_rows",),
    ),
    Mutation(
        "the rows of a unit are counted anew in every block",
        "R11",
        "contribution._places",
        "seen.get(identity, 0) + int(count)",
        "0",
        ("tests/unit/curator/test_contribution.py::test_the_first_rows_of_a_unit_depend_on_no_other_unit",),
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
        "the number of rows is given to whoever asks",
        "R3",
        "Curator.rows",
        "not self.adjacency.rows_are_public",
        "False",
        ("tests/privacy/test_room.py::test_the_number_of_rows_is_private_under_add_remove_only",),
    ),
    Mutation(
        "the ledger is not charged",
        "R13",
        "Curator._spend_each",
        "charged.append((item, self._charge(item.loss, what=item.step)))",
        "self._account.charge(item.loss)",
        ("tests/privacy/test_room.py::test_the_ledger_is_charged_before_the_data_is_read",),
    ),
    Mutation(
        "the ledger is charged after reading",
        "R13",
        "Curator._spend_each",
        """
for item in items:
    charged.append((item, self._charge(item.loss, what=item.step)))
    self._vault.items.append(item)
result = answer(table)
""",
        """
result = answer(table)
for item in items:
    charged.append((item, self._charge(item.loss, what=item.step)))
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
        "raise PrivacyError('a curator holds private rows and cannot be pickled or copied: make another Curator, or pass on "
        "its releases')",
        "return 'Curator'",
        ("tests/privacy/test_room.py::test_a_curator_can_be_neither_pickled_nor_copied",),
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
        "return self._spend(item, lambda table: plan.chosen(table.exact(scores)))",
        """
found = plan.chosen(self._vault._table.exact(scores))
return self._spend(item, lambda _: found)
""",
        ("tests/privacy/test_room.py::test_every_question_is_charged_before_the_data_is_read",),
    ),
    Mutation(
        "an error names the table's own columns",
        "R9",
        "source.check_present",
        "', '.join(schema)",
        "', '.join(source.names)",
        ("tests/privacy/test_attacks.py::test_a_file_without_a_header_is_refused_without_a_value",),
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
        "a data set without a ledger is a silent spend",
        "R30",
        "Curator.__init__",
        "dataset is not None and ledger is None",
        "False",
        ("tests/unit/curator/test_ledger.py::test_a_data_set_without_a_ledger_is_refused_before_anything_is_read",),
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
        "an account inside an account has the whole budget again",
        "R19",
        "Curator.open_account",
        "Curator(self._vault, budget=early.budget)",
        "Curator(self._vault, budget=early.budget if type(early.budget) is not type(self.budget) else self.budget)",
        (
            "tests/unit/curator/test_accounts.py::test_all_gaussian_noise_of_a_tree_of_accounts_costs_no_more_than_its_root",
        ),
    ),
    Mutation(
        "codes are remembered whatever the question",
        "R11, R27",
        "PrivateTable._coded_as",
        "coded.domain is domain",
        "True",
        ("tests/contracts/test_sources.py::test_a_curator_counts_each_cut_of_the_cells_anew",),
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
        "a draft is released before it was reviewed",
        "R32",
        "schema.schema.finished",
        "given.finish()",
        "given.schema",
        ("tests/unit/nonprivate/test_draft.py::test_every_release_refuses_a_draft_until_the_last_column_is_reviewed",),
    ),
    Mutation(
        "every discovered range is called narrow",
        "–",
        "noisy_ranges.is_narrow",
        "return _width(lower, upper, whole=whole) <= NARROW * _least_span(gap, apart=len(clear) > 1, whole=whole)",
        "return True",
        (
            "tests/unit/curator/test_noisy_ranges.py::test_a_range_that_is_called_narrow_is_never_wider_than_four_times_what_its_numbers_span",
        ),
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
        "answering.measured(plan, one, exact)",
        "__import__('dataclasses').replace(answering.measured(plan, one, exact), values=exact)",
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
        "a receipt tells in which folder its ledger lies",
        "R15",
        "Curator.__init__",
        "ledger.path.name",
        "str(ledger.path)",
        ("tests/cli/test_cli_places.py::test_what_is_published_names_no_folder_of_the_machine_it_was_made_on",),
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
        "a curator answers after its account was given up",
        "R8",
        "Curator.give_up",
        "self._vault.close()",
        "None",
        ("tests/unit/curator/test_give_up.py::test_nothing_answers_after_an_account_was_given_up",),
    ),
    Mutation(
        "a database keeps all rows of a unit",
        "R11",
        "bounding.bounded",
        """f"SELECT {', '.join(indices)} FROM ({ranked}) ranked WHERE {UNIT} IS NULL OR place <= {rows}\"""",
        """f"SELECT {', '.join(indices)} FROM ({ranked}) ranked WHERE {UNIT} IS NULL OR place >= {rows - rows}\"""",
        (
            (
                "tests/unit/tables/sources/test_planned_sql.py::"
                "test_so_many_rows_of_each_person_are_kept_by_the_statement_that_is_printed"
            ),
        ),
    ),
    Mutation(
        "a database chooses the rows of a unit among those of all units",
        "R11",
        "bounding.bounded",
        """f"row_number() OVER (PARTITION BY {UNIT} ORDER BY {order}, again)\"""",
        """f"row_number() OVER (ORDER BY {order}, again)\"""",
        (
            (
                "tests/unit/tables/sources/test_planned_sql.py::"
                "test_so_many_rows_of_each_person_are_kept_by_the_statement_that_is_printed"
            ),
        ),
    ),
    Mutation(
        "a code is counted with the number of other sign",
        "R5",
        "magnitude_bins",
        "values == code",
        "np.abs(values) == abs(code)",
        ("tests/unit/curator/test_noisy_values.py::test_a_number_is_counted_once_whatever_it_is",),
    ),
    Mutation(
        "a heap that noise may explain is one",
        "–",
        "without_heaps",
        "counts.clear()",
        "counts.rows > 0",
        ("tests/unit/curator/test_noisy_values.py::test_a_code_that_noise_may_explain_is_neither_a_heap_nor_an_end",),
    ),
    Mutation(
        "digits are read off the heaps too",
        "–",
        "except_heaps",
        "values[~np.isin(values, heaps)] if len(heaps) else values",
        "values",
        ("tests/unit/curator/test_noisy_values.py::test_digits_are_those_of_the_numbers_that_are_no_heaps",),
    ),
    Mutation(
        "a range is cut to a heap while many numbers hide in noise",
        "–",
        "_much_outside",
        "outside > max(MANY * held.rows, counts.above(CLEAR) * stddev / counts.stddev)",
        "False",
        (
            "tests/unit/curator/test_noisy_ranges.py::test_a_heap_is_not_cut_out_of_many_numbers_none_of_whose_parts_is_clear",
        ),
    ),
    Mutation(
        "noise beside clear powers of two widens a range",
        "–",
        "noisy_ranges._widened",
        "counts.above(CLEAR)",
        "counts.above(1e-3)",
        (
            "tests/unit/curator/test_noisy_ranges.py::test_noise_of_four_standard_deviations_beside_clear_powers_widens_no_range",
        ),
    ),
    Mutation(
        "a heap keeps more of what is beside it than keeps its range narrow",
        "–",
        "noisy_ranges.narrowed",
        "int(NARROW * span / part + 1e-9)",
        "PARTS",
        (
            "tests/unit/curator/test_noisy_ranges.py::test_what_is_left_of_a_range_is_at_most_four_times_what_its_filled_parts_span",
        ),
    ),
    Mutation(
        "a plan says that a refusal costs less than it does",
        "R19",
        "refusal_costs",
        "early.cost(end)",
        "early.cost(ends[0])",
        (
            "tests/unit/planning/test_dry_run.py::test_a_plan_says_what_a_refusal_would_cost_and_the_ledger_has_just_that",
        ),
    ),
    Mutation(
        "rows are hashed by another constant",
        "–",
        "contribution.mixed",
        "np.uint64(0xBF58476D1CE4E5B9)",
        "np.uint64(0xBF58476D1CE4E5BA)",
        ("tests/unit/curator/test_contribution.py::test_rows_are_hashed_by_splitmix64_as_published",),
    ),
)
