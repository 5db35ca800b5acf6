"""A world in a seed: simulated processes, clock and loop."""
