"""Synthetic persons with all their rows, from noisy tables of persons."""
