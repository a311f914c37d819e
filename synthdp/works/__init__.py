"""Lines of work beside the pipeline, each whole in one folder; `synthdp.registered` finds them."""
