"""Broken builds of noise: what a loss buys, what a sampler draws, how losses add up."""

from __future__ import annotations

from broken_builds.mutation import Mutation

MUTATIONS = (
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
        "max_rows_per_unit forgotten in the sensitivity",
        "R11",
        "Adjacency.sensitivity",
        "one.times(self.rows)",
        "one",
        ("tests/privacy/test_attacks.py::test_the_noise_grows_with_the_rows_of_a_unit",),
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
        "a budget that is used up goes on",
        "R19",
        "Account.charge",
        "sum((part[i] for part in self.spent)) > whole[i] * (1 + ROUNDING)",
        "False",
        ("tests/privacy/test_room.py::test_a_spend_takes_exactly_what_it_says_and_no_more_is_given",),
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
        "counts of keys are not clipped",
        "R5",
        "noise._occurring",
        "max(-LARGEST_VALUE, min(int(counts[key]), LARGEST_VALUE))",
        "int(counts[key])",
        ("tests/unit/privacy/test_noise.py::test_a_count_beyond_the_float_integers_is_clipped",),
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
)
