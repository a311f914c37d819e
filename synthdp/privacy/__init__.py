"""The room: the only place that touches private rows."""
