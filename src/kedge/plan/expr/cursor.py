"""Walking over tokens, with the budgets of depth and size kept on the way."""

from __future__ import annotations

from typing import NoReturn

from kedge.base.errors import ExpressionError
from kedge.plan.expr.faults import MAX_DEPTH, MAX_NODES
from kedge.plan.expr.lexer import Token, tokens


class Cursor:
    """The place in the tokens where a parser stands. It never moves back."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = tokens(text)
        self.token = self.tokens[0]
        self._at = 0
        self._depth = 0
        self._nodes = 0

    @property
    def behind(self) -> Token:
        """The token after the current one."""
        return self.tokens[min(self._at + 1, len(self.tokens) - 1)]

    @property
    def taken(self) -> Token:
        """The token taken last."""
        return self.tokens[self._at - 1]

    def next(self) -> Token:
        """Take the current token, which is not the end."""
        taken = self.token
        self._at += 1
        self.token = self.tokens[self._at]
        return taken

    def sees(self, symbol: str) -> bool:
        return self.token.value == symbol and self.token.kind == "symbol"

    def take(self, value: str, kind: str = "symbol") -> bool:
        """Take the current token if it is this one."""
        if self.token.value == value and self.token.kind == kind:
            self.next()
            return True
        return False

    def source(self, start: int, end: int) -> str:
        return self.text[start:end]

    def with_replaced(self, start: int, end: int, new: str) -> str:
        """The whole text with one stretch of it written anew: a suggestion."""
        return self.text[:start] + new + self.text[end:]

    def deeper(self) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            self.fail(
                "expr_too_deep",
                f"the expression nests deeper than {MAX_DEPTH}",
                "let a step compute the inner part, and read its result",
            )

    def shallower(self) -> None:
        self._depth -= 1

    def count(self) -> None:
        """Count one more part."""
        self._nodes += 1
        if self._nodes > MAX_NODES:
            self.fail(
                "expr_too_many_parts",
                f"the expression has more than {MAX_NODES} parts",
                "let a step compute it; to compare with many values write `x in list`",
            )

    def fail(
        self,
        code: str,
        message: str,
        remedy: str,
        *,
        at: Token | None = None,
        allowed: tuple[str, ...] = (),
        suggestion: str | None = None,
    ) -> NoReturn:
        """Refuse the text, at this token or at the current one."""
        raise ExpressionError(
            message,
            code=code,
            position=(at or self.token).start,
            allowed=allowed,
            remedy=remedy,
            suggestion=suggestion,
        )
