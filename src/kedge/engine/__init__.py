"""The shell around the core: it makes happen what the core says is due, on one event loop.

Owns the drivers (one for each run that moves), the calls in flight, when to commit, the limits that
calls share, and taking a run up again after its process was lost. The ports it needs are in `ports`.

Contracts: nothing but a driver touches a run; a promise (a call with effects, an end, a receipt)
waits for the disk, everything else does not; a tool can fail, hang or lie and harm only its own
step; what follows a run (callbacks, views) reads behind a cursor and cannot slow it.
"""
