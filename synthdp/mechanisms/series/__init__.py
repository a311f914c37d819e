"""Releases over time: what is asked when, what the answers of all periods say together, and rows that stay."""
