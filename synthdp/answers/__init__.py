"""Answers with error bars from a release: post-processing of its model and its noisy tables, never of private rows."""
