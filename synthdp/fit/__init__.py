"""From noisy answers to a distribution; knows nothing of private rows.  The linear programs have a folder of their own."""
