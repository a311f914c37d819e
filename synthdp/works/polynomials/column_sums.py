"""What noisy sums over sets of bits say of the tables of whole columns: a product has one bit of each column, or none."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np

from synthdp.arrays import BoolArray, FloatArray
from synthdp.queries.product_sums import ProductSums
from synthdp.works.polynomials.binarized import Binarized
from synthdp.works.polynomials.polynomials import ranks


def column_sums(
    bits: Binarized,
    names: Sequence[str],
    levels: Sequence[FloatArray],
    variances: Sequence[float],
    *,
    of_bit: Callable[[BoolArray], FloatArray],
) -> ProductSums | None:
    """Return what is known of the table of some columns, in this order; ``None`` if the sets of bits are too small.

    Parameters
    ----------
    bits
        The bits of all columns.
    names
        The columns.
    levels
        For each size of sets, from 0: the noisy sums of all sets of this size, in lexicographic order.
    variances
        Of the noise of each size; infinite where a size was left out.
    of_bit
        What a bit contributes to a product, by its value in each cell.
    """
    if not set(names) <= set(bits.domain.names) or len(names) >= len(levels):
        return None
    if not np.isfinite(variances[: len(names) + 1]).all():
        return None
    columns = [bits.domain.names.index(name) for name in names]
    own = [bits.of_column(column) for column in columns]
    values = np.empty([1 + len(some) for some in own])
    variance = np.empty_like(values)
    for size in range(len(names) + 1):
        for chosen in itertools.combinations(range(len(names)), size):
            place = tuple(slice(1, None) if j in chosen else 0 for j in range(len(names)))
            sets = np.array(list(itertools.product(*(own[j] for j in chosen))), np.int64)
            found = levels[size][ranks(np.sort(sets, axis=1), bits.d)] if size else levels[0][:1]
            values[place], variance[place] = found.reshape([len(own[j]) for j in chosen]), variances[size]
    axes = tuple(bits.domain.axes[column] for column in columns)
    features = tuple(
        np.array([np.ones(axis.size), *(of_bit(bits.bits[i].cells) for i in some)])
        for axis, some in zip(axes, own, strict=True)
    )
    return ProductSums(axes=axes, features=features, values=values, variance=variance)
