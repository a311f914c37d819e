"""Fits to weights on listed points: of L1 programs, of sparse answers and of noisy moments."""
