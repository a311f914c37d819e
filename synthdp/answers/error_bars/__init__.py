"""Errors of answers from a model: bootstrap replicates of the noise, and of relations that were not measured."""
