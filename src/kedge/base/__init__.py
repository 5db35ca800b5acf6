"""What every room stands on: errors, limits, ids, the clock and the codec.

Owns the words that all rooms share. It imports nothing of kedge, does no I/O (reading the clock
apart), and keeps no state.
"""
