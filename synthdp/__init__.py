"""synthdp: differentially private synthetic tables, with a guarantee that holds end to end."""

__version__ = "0.1.0"
