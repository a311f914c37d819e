"""Pictures of a release for pages and notebooks: what to show, and its drawing as SVG.  Reads a release, never a row."""
