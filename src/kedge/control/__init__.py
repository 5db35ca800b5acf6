"""The only door: start a run, watch it, steer it, list and delete runs.

Owns `Engine` (a facade over drivers, journal and tools), `Run` (a handle on one run) and what is
checked before anything runs: plan, inputs, ids. Every surface (CLI, web, MCP) comes in here.

Contracts: what cannot run is refused before anything is written; a handle returned is a run on disk;
whoever follows a run cannot slow it or hurt it.
"""
