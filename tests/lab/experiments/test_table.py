"""Cells and lines of a table."""

from maci2_lab.experiments.table import Cell, Line, mark_best


def test_the_best_of_a_column_is_marked_as_it_reads():
    lines = [
        Line(n, "", (Cell(v), Cell(s)))
        for n, v, s in (("a", 0.2331, 1.0), ("b", 0.2334, 0.9), ("c", 0.3, 1.0))
    ]
    marked = mark_best(lines, {0: False, 1: True})
    assert [line.cells[0].best for line in marked] == [True, True, False]
    assert [line.cells[1].best for line in marked] == [True, False, True]


def test_a_cell_shows_the_papers_number_in_brackets():
    assert Cell(0.2334, 3, 0.235).text() == "0.233 (0.235)"
    assert Cell(None, 3, 0.235).text() == "- (0.235)"
