"""Agents: who says how a run goes on at the points where its settings ask.

Owns how an agent is made of something else. An agent is shown a `Situation` and answers with commands.

Contracts: an agent acts by its commands alone; they carry an agent's authority, whatever it says of itself;
what it wants to know later it says or notes, for it may be asked in another process next time.
"""
