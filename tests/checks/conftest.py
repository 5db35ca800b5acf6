"""Tools that the checked plans use, and checking as a function of a document."""

from typing import Any

import pytest

from kedge.checks import check
from kedge.plan.findings import Finding
from kedge.plan.tools import Catalog, ToolSpec


def schema(required: tuple[str, ...] = (), **properties: Any) -> dict[str, Any]:
    """An object schema with exactly these properties; a text stands for that type."""
    told = {name: {"type": one} if isinstance(one, str) else one for name, one in properties.items()}
    return {"type": "object", "properties": told, "required": list(required), "additionalProperties": False}


FILES = schema(("files",), files={"type": "array", "items": schema(("path",), path="string", size="integer")})
TREE = {"type": "object", "properties": {"kids": {"type": "array", "items": {"$ref": "#/$defs/tree"}}}}
SHAPES = schema(
    number={"type": "number", "minimum": 0, "maximum": 10},
    count={"type": "integer"},
    flag="boolean",
    mode={"enum": ["fast", "slow"]},
    one={"const": 1},
    names={"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 3},
    point=schema(("lat",), lat="number", lon="number"),
    maybe={"anyOf": [{"type": "integer"}, {"type": "null"}]},
    several={"anyOf": [{"type": "integer"}, {"type": "string"}]},
    both={"allOf": [{"type": "integer"}, {"minimum": 3}]},
    code={"type": "string", "pattern": "^[a-z]+$"},
    slow={"type": "string", "pattern": "^(a+)+$"},
    short={"type": "string", "maxLength": 3},
    tree={"$ref": "#/$defs/tree"},
) | {"$defs": {"tree": TREE | {"additionalProperties": False}}}

CATALOG = Catalog(
    [
        ToolSpec(
            name="files.list",
            effect="read",
            parameters=schema(("path",), path="string", pattern="string"),
            returns=FILES,
        ),
        ToolSpec(
            name="files.read",
            effect="read",
            parameters=schema(("path",), path="string"),
            returns={"type": "string"},
        ),
        ToolSpec(
            name="double", effect="pure", parameters=schema(("x",), x="integer"), returns={"type": "integer"}
        ),
        ToolSpec(name="anything", effect="pure", parameters={"type": "object"}),
        ToolSpec(name="upload", effect="idempotent", parameters={"type": "object"}),
        ToolSpec(name="send", effect="effect", parameters=schema(to="string"), returns=schema(id="string")),
        ToolSpec(name="unsend", effect="idempotent", parameters=schema(("id",), id="string")),
        ToolSpec(
            name="loose",
            effect="pure",
            returns={"type": "object", "properties": {"known": {"type": "string"}}},
        ),
        ToolSpec(
            name="fax",
            available=False,
            unavailable_because="no line",
            substitutes=("telex", "send"),
            parameters=schema(),
        ),
        ToolSpec(name="shapes", effect="pure", parameters=SHAPES),
    ]
)


@pytest.fixture(scope="session")
def catalog() -> Catalog:
    return CATALOG


@pytest.fixture(scope="session")
def found():
    """The findings of a document."""

    def check_it(
        document: Any, strictness: Any = "moderate", catalog: Catalog | None = CATALOG
    ) -> list[Finding]:
        return list(check(document, catalog, strictness))

    return check_it
