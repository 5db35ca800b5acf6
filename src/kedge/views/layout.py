"""Places for the boxes of a graph: in layers from left to right, few crossings, the written order kept.

Layers are longest paths from the sources; then a few sweeps order each layer by the average place of
its neighbours. Stable: equal input gives the same picture, and ties keep the order written. Long edges
are not routed around boxes: at the sizes a person reads, that doubles the code for little.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

_SWEEPS = 4


class Box(NamedTuple):
    """Where a box stands."""

    x: float
    y: float
    width: float
    height: float


class Layout(NamedTuple):
    """All boxes, and the size of the whole."""

    boxes: list[Box]
    width: float
    height: float


def lay_out(
    sizes: Sequence[tuple[float, float]],
    edges: Sequence[tuple[int, int]],
    gap_x: float = 48.0,
    gap_y: float = 18.0,
) -> Layout:
    """Boxes of these sizes, `edges` as indices (from, to). Edges that close a cycle do not count."""
    after, before = _acyclic(len(sizes), edges)
    layer_of = _layers(after, before)
    layers: list[list[int]] = [[] for _ in range(max(layer_of, default=-1) + 1)]
    for index, layer in enumerate(layer_of):
        layers[layer].append(index)
    _uncross(layers, after, before)
    heights = [sum(sizes[i][1] + gap_y for i in layer) - gap_y for layer in layers]
    height = max(heights, default=0.0)
    boxes = [Box(0, 0, 0, 0)] * len(sizes)
    x = 0.0
    for layer, used in zip(layers, heights, strict=True):
        widest = max(sizes[i][0] for i in layer)
        y = (height - used) / 2
        for i in layer:
            boxes[i] = Box(x, y, *sizes[i])
            y += sizes[i][1] + gap_y
        x += widest + gap_x
    return Layout(boxes, max(0.0, x - gap_x), height)


def _acyclic(count: int, edges: Sequence[tuple[int, int]]) -> tuple[list[list[int]], list[list[int]]]:
    """Successors and predecessors, without the edges that lead back to where a walk came from."""
    wakes: list[list[int]] = [[] for _ in range(count)]
    for source, target in edges:
        wakes[source].append(target)
    after: list[list[int]] = [[] for _ in range(count)]
    before: list[list[int]] = [[] for _ in range(count)]
    open_, closed = set[int](), set[int]()
    for start in range(count):
        walk = [(start, iter(wakes[start]))] if start not in closed else []
        open_.update(node for node, _ in walk)
        while walk:
            node, rest = walk[-1]
            target = next(rest, None)
            if target is None:
                walk.pop()
                open_.discard(node)
                closed.add(node)
            elif target not in open_:
                after[node].append(target)
                before[target].append(node)
                if target not in closed:
                    open_.add(target)
                    walk.append((target, iter(wakes[target])))
    return after, before


def _layers(after: list[list[int]], before: list[list[int]]) -> list[int]:
    layer = [0] * len(after)
    left = [len(sources) for sources in before]
    todo = [i for i, count in enumerate(left) if not count]
    for node in todo:  # grows while it is walked
        for target in after[node]:
            layer[target] = max(layer[target], layer[node] + 1)
            left[target] -= 1
            if not left[target]:
                todo.append(target)
    return layer


def _uncross(layers: list[list[int]], after: list[list[int]], before: list[list[int]]) -> None:
    place = {node: i / max(1, len(layer)) for layer in layers for i, node in enumerate(layer)}
    for sweep in range(_SWEEPS):
        neighbours, order = (before, layers) if sweep % 2 == 0 else (after, layers[::-1])
        for layer in order:
            wish = {
                node: sum(place[n] for n in neighbours[node]) / len(neighbours[node])
                if neighbours[node]
                else place[node]
                for node in layer
            }
            layer.sort(key=wish.__getitem__)  # stable: equal wishes keep their order
            place.update((node, i / len(layer)) for i, node in enumerate(layer))
