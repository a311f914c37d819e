"""Fits of weights on points, listed or of a product grid, to noisy answers: by L1 programs, and by maximum entropy."""
