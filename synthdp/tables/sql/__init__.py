"""How databases are asked: connections, types, sentences in place of their errors, and the encoding written as SQL."""
