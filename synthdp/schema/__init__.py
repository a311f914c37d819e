"""Public knowledge: columns, schema, and its JSON form."""
