"""One paper a file: programs that ask the curator and never see a row."""
