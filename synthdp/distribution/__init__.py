"""Distributions over a domain: explicit support, product, junction tree."""
