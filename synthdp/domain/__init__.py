"""The finite world: axes, domains, and values to grid indices (`encoder`), and on to codes of bins (`Domain.codes`)."""
