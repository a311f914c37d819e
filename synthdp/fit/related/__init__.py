"""From noisy tables of persons to histories: post-processing."""
