"""Lines of work outside the pipeline, each whole in one folder; `synthdp.registered` finds them."""
