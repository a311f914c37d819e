import numpy as np
import pytest
from joint_tables import joint_table, margin

from synthdp.distribution.explicit import Explicit
from synthdp.errors import ParameterError
from synthdp.fit import raking
from synthdp.fit.consistency import centred
from synthdp.fit.max_entropy import MaxEntropy
from synthdp.fit.raking import Particles
from synthdp.queries.contingency import NoisyTable, cell_index, merged_cells

SHAPE = (2, 3, 2)
TREE = [(0,), (1,), (2,), (0, 1), (1, 2)]
OFF_TREE = (0, 2)
TOTAL = 2000.0


def tables_of(joint, cliques, stddev=2.0):
    return [NoisyTable(clique=c, counts=TOTAL * margin(SHAPE, joint, c), stddev=stddev) for c in cliques]


@pytest.fixture(scope="module")
def joint():
    rng = np.random.default_rng(0)
    potentials = {c: 0.7 * rng.normal(size=np.prod([SHAPE[a] for a in c])) for c in [(0, 1), (1, 2), (0, 2)]}
    return joint_table(SHAPE, potentials)[0]


@pytest.fixture(scope="module")
def model(joint):
    return MaxEntropy(max_sweeps=200, tolerance=1e-9).fit(tables_of(joint, TREE), SHAPE, total=TOTAL).model


def test_without_off_tree_cliques_the_weights_stay_nearly_even(joint, model):
    raked = Particles(size=20_000).fit(model, tables_of(joint, TREE), total=TOTAL, rng=np.random.default_rng(1))
    assert np.abs(raked.weights * 20_000 - 1).max() < 0.1


def test_an_off_tree_table_is_met_and_the_tables_of_the_tree_are_kept(joint, model):
    tables = tables_of(joint, [*TREE, OFF_TREE])
    raked = Particles(size=20_000, sweeps=20).fit(model, tables, total=TOTAL, rng=np.random.default_rng(1))
    before = np.abs(model.marginal(OFF_TREE) - margin(SHAPE, joint, OFF_TREE)).sum()
    assert np.abs(raked.marginal(OFF_TREE) - margin(SHAPE, joint, OFF_TREE)).sum() < 0.05 * before
    for table in tables:
        assert np.abs(raked.marginal(table.clique) - table.counts / TOTAL).sum() < 0.01


@pytest.mark.parametrize(
    ("total", "size", "wanted"),
    [(2000.0, 200_000, 25_000), (4321.0, 200_000, 43_210), (10**5, 200_000, 200_000), (2000.0, 700, 700)],
)
def test_a_small_table_has_fewer_particles(joint, model, total, size, wanted):
    raked = Particles(size=size, sweeps=1).fit(
        model, tables_of(joint, [(0,), (1,), (2,)]), total=total, rng=np.random.default_rng(1)
    )
    assert len(raked.weights) == wanted


def test_fewer_particles_have_more_sweeps(joint, model, monkeypatch):
    """In each sweep rows are looked up twice: for the pairs of the tree, and for the single columns."""
    sweeps = []
    monkeypatch.setattr(raking._Block, "rake", lambda _, weights, **__: [sweeps.append(len(weights)), weights][1])
    for total in (2000.0, 10_000.0, 10**6):
        Particles().fit(model, tables_of(joint, TREE), total=total, rng=np.random.default_rng(1))
    assert [sweeps.count(size) for size in (25_000, 100_000, 200_000)] == [48, 24, 12]


def test_tables_raked_in_a_block_are_raked_one_after_the_other(joint, model, monkeypatch):
    tables = tables_of(joint, [*TREE, OFF_TREE])
    groups = (np.array([0, 1]), np.array([0, 1, 1]), np.array([0, 1]))
    counts = np.bincount(merged_cells(groups), TOTAL * margin(SHAPE, joint, (0, 1, 2)))
    tables.append(NoisyTable(clique=(0, 1, 2), counts=counts, stddev=3.0, groups=groups))
    weights = []
    for cells in (4096, 1):
        monkeypatch.setattr(raking, "BLOCK_CELLS", cells)
        settings = Particles(size=5_000, sweeps=3)
        weights.append(settings.fit(model, tables, total=TOTAL, rng=np.random.default_rng(1)).weights)
    np.testing.assert_allclose(weights[0], weights[1], rtol=1e-9)
    assert np.ptp(weights[0]) > 0.05 * weights[0].mean()


def test_blocks_hold_every_table_once_in_its_turn_and_few_cells():
    rng = np.random.default_rng(0)
    shape = tuple(rng.integers(2, 30, 9).tolist())
    pairs = [(a, b) for a in range(9) for b in range(a + 1, 9)]
    tables = [NoisyTable(clique=c, counts=np.zeros(np.prod([shape[a] for a in c])), stddev=1.0) for c in pairs]
    turns = [i // 12 for i in range(len(tables))]
    blocks = raking.blocks_of(tables, turns, shape)
    assert sorted(i for block in blocks for i in block) == list(range(len(tables)))
    assert len(blocks) < len(tables)
    for block in blocks:
        assert len({turns[i] for i in block}) == 1
        columns = {a for i in block for a in pairs[i]}
        assert np.prod([shape[a] for a in columns]) <= raking.BLOCK_CELLS


@pytest.mark.slow
def test_particles_reach_the_joint_fit_of_tree_and_off_tree_cliques(joint, model):
    """With every cell occupied, raking solves the same dual as a tree that holds the off-tree clique."""
    tables = tables_of(joint, [*TREE, OFF_TREE], stddev=40.0)
    settings = MaxEntropy(max_sweeps=2000, tolerance=1e-10)
    start = settings.fit(tables[:-1], SHAPE, total=TOTAL).model
    exact = settings.fit(tables, SHAPE, total=TOTAL).model
    raked = Particles(size=100_000, sweeps=300).fit(start, tables, total=TOTAL, rng=np.random.default_rng(2))
    for table in tables:
        np.testing.assert_allclose(raked.marginal(table.clique), exact.marginal(table.clique), atol=4e-3)


def test_of_tables_that_contradict_each_other_the_one_way_is_met(model):
    """One-ways are raked last: they are what everything else is decoded by."""
    one_way = NoisyTable(clique=(0,), counts=np.array([500.0, 1500.0]), stddev=1e-6)
    off_tree = NoisyTable(clique=OFF_TREE, counts=np.array([900.0, 600.0, 300.0, 200.0]), stddev=1e-6)
    rng = np.random.default_rng(5)
    raked = Particles(size=5000, sweeps=1).fit(model, [one_way, off_tree], total=TOTAL, rng=rng)
    np.testing.assert_allclose(raked.marginal((0,)), [0.25, 0.75], atol=1e-6)


def test_structural_zeros_of_the_model_stay():
    allowed = np.array([True, True, False, True, True, True])
    tables = [NoisyTable(clique=c, counts=np.full(k, TOTAL / k), stddev=3.0) for c, k in {(0,): 2, (0, 1): 6}.items()]
    fit = MaxEntropy().fit(tables, SHAPE, total=TOTAL, allowed={(0, 1): allowed})
    off_tree = NoisyTable(clique=OFF_TREE, counts=np.array([900.0, 100, 100, 900]), stddev=3.0)
    rng = np.random.default_rng(3)
    raked = Particles(size=5000).fit(fit.model, [*tables, off_tree], total=TOTAL, rng=rng)
    assert raked.marginal((0, 1))[2] == 0
    assert allowed[cell_index(raked.sample(3000, rng), SHAPE, (0, 1))].all()


def test_a_cell_without_particles_is_left_alone(model):
    """Five particles cannot fill six cells: the weights still sum to one."""
    tables = [NoisyTable(clique=(0, 1), counts=np.full(6, TOTAL / 6), stddev=1.0)]
    raked = Particles(size=5).fit(model, tables, total=TOTAL, rng=np.random.default_rng(4))
    assert np.isfinite(raked.weights).all()
    assert raked.weights.sum() == pytest.approx(1)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [({"size": 0}, "size"), ({"sweeps": 0}, "sweeps")],
)
def test_a_setting_outside_its_range_is_refused(parameters, message):
    with pytest.raises(ParameterError, match=message):
        Particles(**parameters)


def test_what_does_not_fit_is_refused(model):
    rng = np.random.default_rng(0)
    with pytest.raises(ParameterError, match="total"):
        Particles(size=10).fit(model, [], total=float("nan"), rng=rng)
    table = NoisyTable(clique=(3,), counts=np.zeros(2), stddev=1.0)
    with pytest.raises(ParameterError, match="clique"):
        Particles(size=10).fit(model, [table], total=10.0, rng=rng)


def test_rows_are_raked_to_a_table_of_merged_codes():
    shape, groups = (4, 4), (np.array([0, 0, 1, 1]), np.array([0, 1, 1, 0]))
    wanted = np.array([400.0, 100.0, 200.0, 300.0])
    flat = [NoisyTable(clique=(j,), counts=np.full(4, 250.0), stddev=1.0) for j in range(2)]
    model = MaxEntropy().fit(flat, shape, total=1000.0).model
    merged = NoisyTable(clique=(0, 1), counts=wanted, stddev=0.1, groups=groups)
    found = Particles(size=20_000, sweeps=40).fit(model, [merged], total=1000.0, rng=np.random.default_rng(0))
    table = np.zeros((2, 2))
    np.add.at(table, np.ix_(*groups), found.marginal((0, 1)).reshape(4, 4))
    assert 1000 * table.ravel() == pytest.approx(wanted, abs=2.0)


def test_a_merged_table_of_the_tree_goes_on_from_the_tree_s_fit():
    """Rows drawn from a tree that met its table already are left as they are."""
    shape, groups = (4, 4), (np.array([0, 0, 1, 1]), np.array([0, 1, 1, 0]))
    merged = NoisyTable(clique=(0, 1), counts=np.array([400.0, 100.0, 200.0, 300.0]), stddev=50.0, groups=groups)
    model = MaxEntropy(max_sweeps=200, tolerance=1e-9).fit([merged], shape, total=1000.0).model
    found = Particles(size=20_000, sweeps=3).fit(model, [merged], total=1000.0, rng=np.random.default_rng(0))
    assert np.abs(found.weights / found.weights.mean() - 1).max() < 0.05


def three_signs(stddev: float) -> NoisyTable:
    """Three columns of four codes in two groups each, of which only the interaction is known: the product of three signs."""
    signs = np.array([1.0, -1.0])
    counts = 60.0 * np.multiply.outer(np.multiply.outer(signs, signs), signs).ravel()
    groups = tuple(np.array(codes) for codes in ([0, 0, 1, 1], [0, 1, 1, 0], [0, 1, 0, 1]))
    return NoisyTable(clique=(0, 1, 2), counts=counts, stddev=stddev, groups=groups, alone=True)


def test_of_an_interaction_that_is_known_alone_the_margins_stay():
    shape = (4, 4, 4)
    pair = NoisyTable(clique=(0, 1), counts=np.repeat([110.0, 15.0], 8), stddev=0.1)
    flat = [NoisyTable(clique=(j,), counts=pair_margin, stddev=0.1) for j, pair_margin in
            ((0, np.array([440.0, 440, 60, 60])), (2, np.full(4, 250.0)))]  # fmt: skip
    tables = [*flat, NoisyTable(clique=(1,), counts=np.full(4, 250.0), stddev=0.1), pair]
    model = MaxEntropy(max_sweeps=200, tolerance=1e-9).fit(tables, shape, total=1000.0).model
    merged = three_signs(0.1)
    found = Particles(size=40_000, sweeps=40).fit(model, [*tables, merged], total=1000.0, rng=np.random.default_rng(0))
    table = np.bincount(merged.merged_cells, weights=1000 * found.marginal((0, 1, 2)))
    assert centred(table.reshape(2, 2, 2)).ravel() == pytest.approx(merged.counts, abs=3.0)
    assert 1000 * found.marginal((0, 1)) == pytest.approx(pair.counts, abs=2.0)
    assert 1000 * found.marginal((0, 2)) == pytest.approx(1000 * model.marginal((0, 2)), abs=3.0)


def test_noise_in_an_interaction_that_is_known_alone_is_not_followed():
    shape = (4, 4, 4)
    flat = [NoisyTable(clique=(j,), counts=np.full(4, 250.0), stddev=0.1) for j in range(3)]
    model = MaxEntropy().fit(flat, shape, total=1000.0).model
    strengths = []
    for stddev in (0.1, 100.0, 10_000.0):
        found = Particles(size=20_000, sweeps=40).fit(
            model, [*flat, three_signs(stddev)], total=1000.0, rng=np.random.default_rng(0)
        )
        merged = np.bincount(three_signs(stddev).merged_cells, weights=1000 * found.marginal((0, 1, 2)))
        strengths.append(np.abs(centred(merged.reshape(2, 2, 2))).mean())
    assert strengths[0] == pytest.approx(60.0, abs=2.0)
    assert 10 < strengths[1] < 50
    assert strengths[2] < 3


@pytest.mark.parametrize("spare", [1e-6, 0.3])
def test_rows_that_a_total_needs_have_its_count_whatever_their_weight_was_at_first(spare, monkeypatch):
    totals = [((0, 2), np.array([0.0, 600.0, 900.0, 500.0]))]
    first = np.array([[0, 0, 1], [0, 1, 1], [1, 2, 0], [1, 0, 0]])  # no row has the last cell of the totals
    rows = Explicit(shape=SHAPE, codes=first, weights=np.full(4, 0.25))
    usual = raking.raked_exactly(rows, totals, zeros={}, rng=np.random.default_rng(1))
    monkeypatch.setattr(raking, "SPARE", spare)
    other = raking.raked_exactly(rows, totals, zeros={}, rng=np.random.default_rng(1))
    assert np.allclose(usual.weights, other.weights)
    found = np.bincount(cell_index(other.codes, SHAPE, (0, 2)), other.weights, minlength=4)
    assert np.allclose(found, totals[0][1] / totals[0][1].sum())
