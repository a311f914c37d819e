"""Sparse queries over universes of any size."""
