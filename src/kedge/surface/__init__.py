"""Where people and programs meet kedge: the command line; later the web and MCP.

Owns nothing of a run: each surface is a leaf that turns what it is told into calls of `control`, and
what comes back into text. Contracts: a surface never imports another one; whatever it shows of plans
and tools is cleaned first; every error reaches the person with what to do next.
"""
