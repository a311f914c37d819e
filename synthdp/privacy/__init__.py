"""The arithmetic of privacy: losses, their composition, and exact noise.  It knows no rows."""
