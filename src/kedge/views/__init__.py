"""What people see of a plan and its runs: pictures, progress, sentences.

Owns `draw` (a plan or run as ASCII, Mermaid, timeline or SVG), `Narrator` (the journal's events as
people and callbacks get them, with percent and sentence), and `tree_rows`/`Gauge` for live views.

Contracts: pure: reads states, never changes them, and is told the time. Text from plans and tools is
not trusted: all of it goes through `text.clean` (no control characters, no escape sequences, one
line, a limited width) and is then escaped for the form it goes into. The same journal always gives
the same events and the same pictures.
"""
