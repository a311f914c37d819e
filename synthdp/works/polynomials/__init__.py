"""Marginals, r-of-k queries and decision lists, answered by noisy coefficients of polynomials and parities."""

from synthdp.registered import NamedPlace, Work

WORK = Work(
    package=__name__,
    mechanisms={
        "fourier_marginals": NamedPlace("fourier_marginals:FourierMarginals", ("workload", "solver")),
        "parity_release": NamedPlace("parity_release:ParityRelease", ()),
        "monomial_release": NamedPlace("monomial_release:MonomialRelease", ()),
        "decision_list_release": NamedPlace("decision_list_release:DecisionListRelease", ()),
    },
    saved={
        "AverageConjunctions": "polynomial_families",
        "AverageFamily": "polynomial_families",
        "Binarized": "binarized",
        "Bit": "binarized",
        "CellParities": "fourier_marginals",
        "DecisionListSummary": "decision_list_release",
        "FourierTable": "fourier_marginals",
        "ListCoefficients": "list_coefficients",
        "ListFamily": "polynomial_families",
        "MonomialSummary": "monomial_release",
        "Monomials": "monomial_release",
        "Parities": "parities",
        "ParitySummary": "parity_summary",
        "PolynomialSummary": "polynomial_release",
        "PrefixCoefficients": "list_coefficients",
        "SymmetricFamily": "polynomial_families",
        "TabulatedFamily": "polynomial_families",
    },
)
"""The mechanisms and saved classes of this work, as `synthdp.registered` reads them."""
