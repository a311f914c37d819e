"""Fits to weights on listed support points."""
