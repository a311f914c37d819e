"""Columns of each dataframe library, read and built."""
