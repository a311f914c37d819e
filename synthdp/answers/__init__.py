"""Answers with error bars from a synthetic release: post-processing of its model and its noisy tables, never of rows."""
