"""Broken builds of statistics: by how much a row or a person moves them."""

from __future__ import annotations

from broken_builds.mutation import Mutation

_CLAIM = "tests/audit/test_audit.py::test_no_record_moves_all_answers_of_a_planned_release_beyond_the_claim"

MUTATIONS = (
    Mutation(
        "all distances of pairs together move like one",
        "R5",
        "PairDistances.bounds",
        "Norms.within(self.k, self.denominator)",
        "Norms.within(1, self.denominator)",
        (
            "tests/unit/queries/test_pair_distances.py::test_one_record_added_moves_them_by_their_bounds_and_no_more_in_all_tiny_tables",
        ),
    ),
    Mutation(
        "a distance of a pair is said to move by a part of a row",
        "R5",
        "PairDistances.bounds",
        "Norms.within(self.k, self.denominator)",
        "Norms.within(self.k, 1)",
        (
            "tests/unit/queries/test_pair_distances.py::test_one_record_added_moves_them_by_their_bounds_and_no_more_in_all_tiny_tables",
        ),
    ),
    Mutation(
        "all distances of tables together move like one",
        "R5",
        "MarginalDistances.bounds",
        "Norms.within(self.k, self.denominator)",
        "Norms.within(1, self.denominator)",
        (
            "tests/contracts/test_queries.py::test_adding_any_record_changes_the_answers_within_the_bounds",
            _CLAIM,
        ),
    ),
    Mutation(
        "far rows are not clipped to the norm of their products",
        "R5",
        "ClippedProducts.clipping",
        "factor[far] = self.clipped_to / np.sqrt(squared[far])",
        "",
        (
            "tests/contracts/test_queries.py::test_adding_any_record_changes_the_answers_within_the_bounds",
            _CLAIM,
        ),
    ),
    Mutation(
        "products of far rows are not clipped each by itself",
        "R5",
        "PairProducts.features",
        "np.clip(scores[:, left] * scores[:, right], -self.most, self.most)",
        "scores[:, left] * scores[:, right]",
        (
            "tests/contracts/test_queries.py::test_adding_any_record_changes_the_answers_within_the_bounds",
            _CLAIM,
        ),
    ),
    Mutation(
        "all products of some pairs together move like one",
        "R5",
        "PairProducts.bounds",
        "Norms.within(self.k, self.most)",
        "Norms.within(1, self.most)",
        (
            "tests/contracts/test_queries.py::test_adding_any_record_changes_the_answers_within_the_bounds",
            _CLAIM,
        ),
    ),
    Mutation(
        "interactions that are asked together move like the longest",
        "R5",
        "interactions._together",
        "sum((norms.l2_squared * weight ** 2 for norms, weight in parts))",
        "max((norms.l2_squared * weight ** 2 for norms, weight in parts))",
        (_CLAIM,),
    ),
    Mutation(
        "pairs are counted in single precision beyond what it holds",
        "R5",
        "add_pair_counts",
        "min(MOST_ROWS, MOST_ENTRIES // size)",
        "2**25",
        ("tests/unit/queries/test_pair_distances.py::test_counts_beyond_single_precision_are_exact",),
    ),
    Mutation(
        "expectations of pairs may leave 63 bits",
        "R26",
        "PairDistances.__post_init__",
        "margin.min() < 0 or margin.max() > LARGEST_SUM // len(margin)",
        "margin.min() < 0",
        ("tests/unit/queries/test_pair_distances.py::test_margins_that_are_none_are_refused",),
    ),
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
        "np.clip(_checked(name, values).astype(np.int64, copy=False), -most, most)",
        "_checked(name, values).astype(np.int64)",
        (
            "tests/contracts/test_queries.py::test_bounds_hold_for_every_shape_and_unit_beside_the_empty_and_the_largest_table",
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
        "a misfit that replaces a row moves nothing",
        "R5",
        "FittingRows.bounds",
        "RecordBounds(bounds.one, bounds.swap.either(bounds.one))",
        "bounds",
        ("tests/contracts/test_queries.py::test_replacing_any_record_changes_the_answers_within_the_bounds",),
    ),
    Mutation(
        "every row of a person counts as one",
        "R5, R11",
        "Persons.divided",
        "one // np.maximum(every, 1)[person]",
        "one + 0 * person",
        (
            "tests/unit/queries/test_person_tables.py::test_a_person_moves_every_table_by_no_more_than_its_norms",
            "tests/audit/test_database_audit.py::test_a_person_moves_all_answers_of_a_release_by_what_the_claim_allows_and_hardly_less",
        ),
    ),
    Mutation(
        "rows share one as if there were one fewer",
        "R5, R11",
        "Persons.divided",
        "np.maximum(every, 1)[person]",
        "np.maximum(every - 1, 1)[person]",
        ("tests/unit/queries/test_person_tables.py::test_a_person_moves_every_table_by_no_more_than_its_norms",),
    ),
    Mutation(
        "rows share one with those of their own parent row alone",
        "R5, R11",
        "Persons.divided",
        "self.person(table), self.whole(table)",
        "self.tables[table].parent, self.whole(table)",
        ("tests/unit/queries/test_person_tables.py::test_a_person_moves_every_table_by_no_more_than_its_norms",),
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
        "a replaced row of a long list moves it as far as an added one",
        "R5, R12",
        "PrefixCoefficients._exact_bounds",
        "one.times(2)",
        "one",
        ("tests/unit/works/polynomials/test_prefix_coefficients.py::test_the_norms_are_the_largest_of_all_lists",),
    ),
    Mutation(
        "Chebyshev features move by what the paper prints",
        "R5",
        "sensitivity.tensor_swap_l1",
        "t ** (d - 1) * (t + least_kernel(t))",
        "t ** d",
        (
            "tests/unit/works/smooth/test_sensitivity.py::test_in_one_column_the_largest_change_is_the_one_that_a_search_of_all_pairs_finds",
        ),
    ),
    Mutation(
        "Chebyshev features of several columns move as those of one",
        "R5",
        "sensitivity.tensor_swap_l2_squared",
        "max(2.0 * t, one)",
        "one",
        (
            "tests/unit/works/smooth/test_sensitivity.py::test_no_pair_of_points_of_a_grid_exceeds_the_bounds_of_several_columns",
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
        "a pair of siblings weighs as much as its person",
        "R5",
        "pair_shares",
        "rows.rank * (2 if ordered else 1)",
        "1 * (2 if ordered else 1)",
        ("tests/unit/queries/test_siblings.py::test_no_household_moves_tables_of_siblings_by_more_than_their_norms",),
    ),
    Mutation(
        "pairs in either order weigh as much as pairs in one",
        "R5",
        "pair_shares",
        "2 if ordered else 1",
        "1",
        ("tests/unit/queries/test_siblings.py::test_no_household_moves_tables_of_siblings_by_more_than_their_norms",),
    ),
)
