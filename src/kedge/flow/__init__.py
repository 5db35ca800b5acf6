"""The core: what a run is and what happens next, as pure functions over plain data.

Owns the run's vocabulary (inputs, events), its state, and the three functions of the ring:

    decide(state, input)  -> events     what does this mean? (pure; a late or repeated input means nothing)
    evolve(state, event)                the only code that changes state; never evaluates an expression
    due(state, now, gate) -> events     what should be happening and is not?

Contracts: no I/O and no clock, time comes in with every input; the state is exactly the fold of the
events; a value between steps is its canonical JSON bytes, or a `Blob` that names them.
"""
