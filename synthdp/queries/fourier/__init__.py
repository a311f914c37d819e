"""Families of statistics in the Fourier basis of bits."""
