"""Families of statistics in the even trigonometric (Chebyshev) basis."""
