"""Planners: who changes a plan that has met trouble.

Owns how a plan is changed, and by what rules. A planner is shown a `Situation` and answers with a `Patch`,
or with None if it knows no way.

Contracts: a planner reads and never acts; it is given nothing but the situation; what it proposes is
checked by the run like anybody's change.
"""
