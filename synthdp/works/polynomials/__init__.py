"""Marginals, r-of-k and decision lists by polynomials and parities."""
