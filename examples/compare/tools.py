"""Tools of the demo. Plain functions: their signatures and docstrings are all that kedge needs."""

from __future__ import annotations

import asyncio

import kedge

GOOD = frozenset({"good", "strong", "ahead", "growth", "happy", "record", "improved"})
BAD = frozenset({"bad", "weak", "late", "loss", "unhappy", "delay", "delayed", "worse"})


@kedge.tool(effect="pure")
async def tone(text: str, ctx: kedge.Context) -> dict[str, float]:
    """Judge the tone of a text, from -1 (bad) to 1 (good)."""
    ctx.progress(0.5, "counting words")
    await asyncio.sleep(0.3)  # stands for a model that thinks
    words = [word.strip(".,:;!?").lower() for word in text.split()]
    good = sum(word in GOOD for word in words)
    bad = sum(word in BAD for word in words)
    return {"score": round((good - bad) / max(1, good + bad), 2)}


@kedge.tool(effect="read")
async def market_mood() -> dict[str, str]:
    """Ask the market feed for today's mood."""
    await asyncio.sleep(0.1)
    raise kedge.ToolError("the market feed does not answer", "transient")


@kedge.tool(effect="pure")
def guess_mood() -> dict[str, str]:
    """Guess the market's mood without the feed."""
    return {"mood": "calm", "source": "last year"}


@kedge.tool(effect="pure")
def compare_tones(
    tones: list[dict[str, float]], stats: list[dict[str, int]], mood: dict[str, str]
) -> dict[str, object]:
    """Say how the tone changed from the first report to the last.

    Args:
        tones: One score for each report, oldest first.
        stats: Word and line counts of the same reports.
        mood: The market's mood, for the record.
    """
    scores = [tone["score"] for tone in tones]
    change = round(scores[-1] - scores[0], 2)
    trend = "better" if change > 0 else "worse" if change < 0 else "the same"
    words = sum(count["words"] for count in stats)
    summary = (
        f"The tone got {trend} ({scores[0]:+.2f} to {scores[-1]:+.2f}) over {len(scores)} reports "
        f"of {words} words; the market is {mood['mood']} ({mood['source']})."
    )
    return {"change": change, "trend": trend, "summary": summary}


@kedge.tool(effect="pure")
def warn(change: float) -> str:
    """Put a warning into words."""
    return f"careful: the tone fell by {abs(change)}"
