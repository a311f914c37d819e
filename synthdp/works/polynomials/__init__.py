"""Marginals, r-of-k and decision lists by polynomials and parities."""

from synthdp.registered import NamedPlace, Work

WORK = Work(
    package=__name__,
    mechanisms={"fourier_marginals": NamedPlace("fourier_marginals:FourierMarginals", ("workload", "solver"))},
    outputs=(
        "decision_list_release:DecisionListSummary",
        "fourier_marginals:FourierTable",
        "monomial_release:MonomialSummary",
        "parity_summary:ParitySummary",
        "polynomial_release:PolynomialSummary",
    ),
    parts=(
        "average_conjunctions:AverageConjunctions",
        "binarized:Binarized",
        "binarized:Bit",
        "characters:CellParities",
        "list_coefficients:ListCoefficients",
        "monomials:Monomials",
        "parities:Parities",
        "polynomial_families:AverageFamily",
        "polynomial_families:ListFamily",
        "polynomial_families:SymmetricFamily",
        "polynomial_families:TabulatedFamily",
        "prefix_coefficients:PrefixCoefficients",
    ),
)
