"""From noisy answers to a distribution; knows nothing of private rows."""
