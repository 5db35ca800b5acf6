"""The plan as data: what a person, a planner or a program writes down, before anything runs.

Owns `Plan` and its parts, reading and writing them (YAML, JSON, Python), tool specifications and
the catalog, and the one expression language that references and conditions share. Everything here
is frozen data. Nothing here knows what is running.

Contracts: a document either becomes a `Plan` or an `InvalidPlan` with *all* its faults; a `Plan`
written and read again is the same plan; an expression never reaches Python.
"""
