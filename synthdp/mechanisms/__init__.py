"""Mechanisms: programs that ask the curator questions and fit a model to the noisy answers; none sees a row."""
