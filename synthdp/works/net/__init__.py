"""Mechanisms that list every cell of a small domain."""
