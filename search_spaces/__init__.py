"""What may be searched: the spaces of C, gamma, budget and mergees that a study draws from."""
