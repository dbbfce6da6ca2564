"""Algorithm 1 of the paper - intra-slot and inter-slot optimisation and the variants."""
