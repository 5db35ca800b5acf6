from hypothesis import given
from hypothesis import strategies as st

from kedge.views.layout import lay_out

SIZE = (100.0, 40.0)


def overlap(a, b):
    return a.x < b.x + b.width and b.x < a.x + a.width and a.y < b.y + b.height and b.y < a.y + a.height


@given(
    st.integers(1, 14).flatmap(
        lambda n: st.tuples(st.just(n), st.lists(st.tuples(*[st.integers(0, n - 1)] * 2)))
    )
)
def test_boxes_never_overlap_whatever_the_edges(graph):
    count, edges = graph
    sizes = [(60.0 + 10 * i, 20.0 + 5 * i) for i in range(count)]
    layout = lay_out(sizes, edges)
    boxes = layout.boxes
    assert [(b.width, b.height) for b in boxes] == sizes
    assert all(not overlap(boxes[i], boxes[j]) for i in range(count) for j in range(i))
    assert all(b.x >= 0 and b.y >= 0 for b in boxes)
    assert all(b.x + b.width <= layout.width + 0.01 and b.y + b.height <= layout.height + 0.01 for b in boxes)


@given(st.lists(st.tuples(st.integers(0, 11), st.integers(0, 11))))
def test_edges_of_a_graph_without_cycles_lead_to_the_right(edges):
    edges = [(min(e), max(e)) for e in edges if e[0] != e[1]]
    boxes = lay_out([SIZE] * 12, edges).boxes
    assert all(boxes[a].x + boxes[a].width < boxes[b].x for a, b in edges)


def test_the_order_written_is_kept_where_nothing_speaks_against_it():
    boxes = lay_out([SIZE] * 5, [(0, 4), (1, 4), (2, 4), (3, 4)]).boxes
    assert [boxes[i].y for i in range(4)] == sorted(boxes[i].y for i in range(4))


def test_crossings_that_can_be_avoided_are():
    boxes = lay_out([SIZE] * 4, [(0, 3), (1, 2)]).boxes
    assert (boxes[0].y < boxes[1].y) == (boxes[3].y < boxes[2].y)


def test_a_long_chain_and_an_empty_graph():
    assert lay_out([], []).boxes == []
    chain = lay_out([SIZE] * 3000, [(i, i + 1) for i in range(2999)])
    assert chain.height == SIZE[1]
