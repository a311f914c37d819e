"""Fits to a Markov random field on a junction tree."""
