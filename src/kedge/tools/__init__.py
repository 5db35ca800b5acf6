"""Tools: what a plan can call, and how a Python function becomes one.

Owns the `tool` decorator, the schema it reads off a signature, the registry, loading tools from
modules and files, the context a tool may use, and the built-in tools (`builtin/`).

Contracts: arguments come in as canonical JSON bytes and are checked against the signature before
the function is called, so a wrong one never reaches it; `invoke` starts the call and does nothing
else (time limits, retries and encoding of the result belong to whoever calls); a tool's failure is
a `ToolError` with a category; built-in tools stay inside the folders and hosts they were given.
"""
