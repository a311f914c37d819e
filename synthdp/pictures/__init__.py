"""Pictures of a release for pages and notebooks: their contents, and their drawing as SVG.  They read no real row."""
