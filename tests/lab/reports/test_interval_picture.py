"""Values with standard deviations as a picture."""

from xml.etree import ElementTree

from maci2_lab.experiments.truth import truth_findings
from maci2_lab.reports.figures import interval_picture

SVG = "{http://www.w3.org/2000/svg}"


def marks(picture):
    """(x of the point, x of both ends of its bar) of every value."""
    root = ElementTree.fromstring(picture)
    points = [float(c.get("cx")) for c in root.findall(f"{SVG}circle") if c.get("cy") != "38"]
    bars = [line for line in root.findall(f"{SVG}line") if line.get("stroke-width") == "2"]
    return [
        (x, float(bar.get("x1")), float(bar.get("x2"))) for x, bar in zip(points, bars, strict=True)
    ]


def test_points_lie_where_their_values_are_and_bars_are_as_wide_as_sigmas():
    figure = {
        "kind": "intervals",
        "title": "a < b",
        "unit": "ms",
        "names": ["one", "two"],
        "groups": [
            {"name": "first", "values": [[0.0, 1.0], [10.0, 2.0]]},
            {"name": "second", "values": [[None, None], [5.0, 0.5]]},
        ],
    }
    zero, ten, five = marks(interval_picture(figure))
    per_ms = (ten[0] - zero[0]) / 10.0
    assert per_ms > 0.0
    assert abs(five[0] - 0.5 * (zero[0] + ten[0])) < 0.2
    for (_, low, high), std in ((zero, 1.0), (ten, 2.0), (five, 0.5)):
        assert abs((high - low) - 2.0 * std * per_ms) < 0.3


def test_audits_are_drawn_with_their_sigmas():
    row = {
        "source": "state_groundtruth_estimate0",
        "constants": {"rotation_deg": [0.4, 0.1, True], "tilt_deg": [0.5, 0.05, True]},
        "std": [1e-3] * 5,
        "bias_acc": [0.0, 0.1, 0.05],
        "position_noise": 1e-3,
        "orientation_noise": 1e-3,
        "imu_factors": [1.0, 1.0, 1.0, 1.0],
        "late_by_rows_hz": [[5.0, 1.0], [4.0, 0.8], [3.0, 0.5], [2.0, 0.4]],
    }
    task = {"recording": "MH_01_easy", "source": ""}
    clocks, angles = truth_findings([{"task": task, "rows": [row]}]).figures
    assert [len(marks(interval_picture(figure))) for figure in (clocks, angles)] == [4, 2]
