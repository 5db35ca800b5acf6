"""Tools of the story. What they do outside is a line in a file each: the ledger."""

from __future__ import annotations

import asyncio
import csv
import os
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import kedge

BOOKS = Path(".kedge")
LEDGER = BOOKS / "ledger.txt"
HOLD = BOOKS / "hold"
"""Names an effect that the story wants to be killed after."""

Orders = list[dict[str, Any]]


def entries() -> list[list[str]]:
    """What was done outside: for each effect its key, its name and what it was about."""
    return [line.split("\t") for line in LEDGER.read_text().splitlines()] if LEDGER.exists() else []


async def happens(what: str, about: object, ctx: kedge.Context) -> None:
    """The effect happens. One write at the end of the file: it is there as a whole, or not at all."""
    line = f"{ctx.idempotency_key}\t{what}\t{about}\n"
    ledger = os.open(LEDGER, os.O_APPEND | os.O_CREAT | os.O_WRONLY)
    try:
        os.write(ledger, line.encode())
    finally:
        os.close(ledger)
    if HOLD.exists() and HOLD.read_text() == what:
        await asyncio.sleep(3600)  # it has happened, and nobody will ever hear of it


@kedge.tool(effect="read")
def list_orders(folder: str) -> list[str]:
    """The files in a folder."""
    return sorted(str(file) for file in Path(folder).iterdir())


@kedge.tool(effect="read")
def read_orders(files: list[str], ctx: kedge.Context) -> Orders:
    """The orders in all CSV files. Of others it can only tell that they are there."""
    orders: Orders = []
    for file in files:
        if file.endswith(".csv"):
            with Path(file).open(newline="") as lines:
                orders += [row | {"amount": float(row["amount"])} for row in csv.DictReader(lines)]
        else:
            ctx.discover(file, need=f"parse {Path(file).suffix.removeprefix('.')}")
    return orders


@kedge.tool(effect="read")
def parse_xml(file: str) -> Orders:
    """The orders in an XML file."""
    found = ElementTree.parse(file).iter("order")  # noqa: S314  # our own file
    return [{**order.attrib, "amount": float(order.attrib["amount"])} for order in found]


@kedge.tool(effect="pure")
def join_orders(one: Orders, other: Orders) -> Orders:
    """Two lists of orders as one."""
    return one + other


@kedge.tool(effect="read", substitutes=("old_rates",))
def rate_feed(orders: Orders) -> dict[str, float]:
    """Today's exchange rates of the currencies in these orders."""
    raise kedge.ToolError("the rate feed was switched off", "permanent")


@kedge.tool(effect="read")
def old_rates(orders: Orders) -> dict[str, float]:
    """Yesterday's exchange rates."""
    rates = {"EUR": 1.0, "USD": 0.5}
    return {order["currency"]: rates[order["currency"]] for order in orders}


@kedge.tool(effect="read")
def stock(orders: Orders) -> list[str]:
    """What has to be taken out of the stock."""
    return [f"goods for {order['customer']}" for order in orders]


@kedge.tool(effect="pure")
def total(orders: Orders, rates: dict[str, float]) -> float:
    """All orders in euros."""
    return sum(order["amount"] * rates[order["currency"]] for order in orders)


@kedge.tool
async def reserve(goods: list[str], ctx: kedge.Context) -> str:
    """Reserve goods."""
    await happens("reserve", f"{len(goods)} goods", ctx)
    return "reservation 7"


@kedge.tool
async def release(reservation: str, ctx: kedge.Context) -> None:
    """Give up a reservation."""
    await happens("release", reservation, ctx)


@kedge.tool(effect="idempotent")
async def invoice(amount: float, ctx: kedge.Context) -> str:
    """Write invoices. They are written once for each key: a second call with the same one changes nothing."""
    if ctx.idempotency_key not in [key for key, *_ in entries()]:
        await happens("invoice", amount, ctx)
    return "invoices 1 to 3"


@kedge.tool
async def pay(amount: float, to: str, ctx: kedge.Context) -> float:
    """Pay somebody. What is paid is gone."""
    await happens("pay", f"{amount:g} to {to}", ctx)
    return amount


@kedge.tool
async def ship(reservation: str, ctx: kedge.Context) -> str:
    """Send what is reserved. The carrier takes whatever it is told to, as often as it is told to."""
    await happens("ship", reservation, ctx)
    return "parcel 4711"


@kedge.tool
async def letter(parcel: str, ctx: kedge.Context) -> None:
    """Write to the customers."""
    await happens("letter", parcel, ctx)


@kedge.tool
async def voucher(parcel: str, ctx: kedge.Context) -> str:
    """Give a voucher to everybody who gets a parcel."""
    await happens("voucher", parcel, ctx)
    return "voucher 12"


@kedge.tool
async def revoke(voucher: str, ctx: kedge.Context) -> None:
    """Take a voucher back."""
    await happens("revoke", voucher, ctx)


@kedge.tool
async def close(total: float, paid: float, seen_by: str, ctx: kedge.Context) -> None:
    """Close the books."""
    await happens("close", f"{total:g} earned, {paid:g} paid, seen by {seen_by}", ctx)
