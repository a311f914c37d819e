"""Answers with error bars from a distribution of persons with rows in several tables."""
