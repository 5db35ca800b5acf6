"""Tools that write down every call of theirs: after bad input the ledger is as empty as before."""

from typing import Annotated, Any, Literal

import msgspec

import kedge

LEDGER: list[str] = []


class File(msgspec.Struct, forbid_unknown_fields=True):
    path: str
    size: int


class Listing(msgspec.Struct, forbid_unknown_fields=True):
    files: list[File]


class Point(msgspec.Struct, forbid_unknown_fields=True):
    lat: float
    lon: float = 0.0


class Sent(msgspec.Struct):
    id: str


@kedge.tool(effect="pure")
async def double(x: int) -> int:
    LEDGER.append("double")
    return 2 * x


@kedge.tool(effect="read")
async def read(path: str) -> str:
    LEDGER.append("read")
    return path


@kedge.tool(effect="read")
async def listing(path: str, pattern: str = "*") -> Listing:
    LEDGER.append("listing")
    return Listing([File(path + pattern, 1)])


@kedge.tool(effect="pure")
async def anything(**values: Any) -> Any:
    LEDGER.append("anything")
    return values


@kedge.tool(effect="pure")
async def shapes(
    number: Annotated[float, msgspec.Meta(ge=0, le=10)] = 1.0,
    mode: Literal["fast", "slow"] = "fast",
    names: Annotated[list[str], msgspec.Meta(min_length=1, max_length=3)] = ["a"],  # noqa: B006
    point: Point | None = None,
    maybe: int | None = None,
    several: int | str = 0,
    flag: bool = False,  # noqa: FBT001, FBT002
    code: Annotated[str, msgspec.Meta(pattern="^[a-z]+$")] = "a",
    slow: Annotated[str, msgspec.Meta(pattern="^(a+)+$")] = "a",
    short: Annotated[str, msgspec.Meta(max_length=3)] = "",
) -> str:
    LEDGER.append("shapes")
    return "done"


@kedge.tool(effect="effect")
async def send(to: str) -> Sent:
    LEDGER.append("send")
    return Sent(to)


@kedge.tool(effect="idempotent")
async def unsend(id: str) -> None:  # noqa: A002
    LEDGER.append("unsend")


@kedge.tool(available="no line", substitutes=("send",))
async def fax(to: str) -> None:
    LEDGER.append("fax")


SLEEP = next(tool for tool in kedge.builtin_tools() if tool.spec.name == "sleep")
TOOLS = [double, read, listing, anything, shapes, send, unsend, fax, SLEEP]
