"""Statistics of persons with rows in several tables: each a record map over a whole person."""
