"""The planner of the story: it knows what to do about XML files. For all else there are rules."""

from __future__ import annotations

import kedge


class Bookkeeper:
    """Two steps for each kind of file that nobody planned for, and rules for what fails."""

    name = "bookkeeper"

    def __init__(self) -> None:
        self.rules = kedge.RulePlanner()

    async def repair(self, situation: kedge.Situation) -> kedge.Patch | None:
        """What is discovered is read and joined to the rest; what fails is left to the rules."""
        for trouble in situation.troubles:
            if trouble.need == "parse xml":
                return _with_xml(trouble.what)
        return await self.rules.repair(situation)


def _with_xml(file: str) -> kedge.Patch:
    """Two more steps; what has not begun reads the joined orders instead of the first ones."""
    parse = kedge.Step(id="parse", do="Read the XML orders", tool="parse_xml", args={"file": file})
    join = kedge.Step(
        id="join", do="Join all orders", tool="join_orders", args={"one": "${read}", "other": "${parse}"}
    )
    return kedge.Patch(
        add=(kedge.Addition(step=parse), kedge.Addition(step=join)),
        rewire={"total": {"read": "join"}, "stock": {"read": "join"}},
        why=f"{file} has orders, too",
    )
