"""Hostile input for everything that reads some, and what has to become of it.

A target is one thing that reads: its generator, its corpus (`tests/attacks/NAME.txt`) and its judge. An
input comes from a seed, from bytes (`make fuzz`: the bytes are the choices) or from the corpus, and goes
through the same judge each time. `targets.py` has the table.
"""
