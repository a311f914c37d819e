import numpy as np
import pytest

from synthdp.distribution.components import Product
from synthdp.errors import ParameterError


def test_a_marginal_is_the_outer_product():
    product = Product(shape=(2, 3), margins=[np.array([1.0, 3.0]), np.array([2.0, 1.0, 1.0])])
    np.testing.assert_allclose(product.marginal((0, 1)), np.outer([0.25, 0.75], [0.5, 0.25, 0.25]).ravel())
    np.testing.assert_allclose(product.marginal((1,)), [0.5, 0.25, 0.25])


@pytest.mark.parametrize(
    ("margins", "message"),
    [
        ([np.ones(2)], "margins"),
        ([np.ones(2), np.ones(2)], "margin.*column 1"),
        ([np.ones(2), np.zeros(3)], "margin.*column 1"),
        ([np.array([1.0, -1.0]), np.ones(3)], "margin.*column 0"),
        ([np.array([1.0, np.nan]), np.ones(3)], "margin.*column 0"),
    ],
)
def test_margins_that_make_no_sense_are_refused(margins, message):
    with pytest.raises(ParameterError, match=message):
        Product(shape=(2, 3), margins=margins)
