"""Answers with error bars from a law of persons with rows in several tables."""
