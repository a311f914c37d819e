"""Fits to noisy moments, and small linear programs."""
