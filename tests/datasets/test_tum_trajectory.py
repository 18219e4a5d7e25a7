"""TUM trajectories: exact timestamps, lost poses dropped and counted."""

import numpy as np
import pytest

from maci2.datasets import read_trajectory
from maci2.errors import DatasetError


def test_stamps_are_exact_and_poses_are_those_of_the_file(small_files):
    trajectory = read_trajectory(small_files / "trajectory.txt")
    expected_ns = [1403636579763555765, 1403636579863555000, 1403636579913555123]
    np.testing.assert_array_equal(trajectory.stamps_ns, expected_ns)
    assert trajectory.dropped == 1
    yaw_90 = [[0, -1, 0, 1.5], [1, 0, 0, 0.25], [0, 0, 1, -1], [0, 0, 0, 1]]
    np.testing.assert_allclose(trajectory.Ts_w_c[1], yaw_90, atol=1e-15)
    np.testing.assert_allclose(trajectory.Ts_w_c[2, :3, :3], np.diag([1, -1, -1]), atol=1e-15)


def test_scientific_notation_keeps_every_digit(tmp_path):
    path = tmp_path / "t.txt"
    path.write_text("1.403636579763555765e+09 0 0 0 0 0 0 1\n1.4036366e9 0 0 0 0 0 0 1\n")
    assert read_trajectory(path).stamps_ns[0] == 1403636579763555765


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ("2 0 0 0 0 0 0 1\n1 0 0 0 0 0 0 1\n", "line 2: timestamp 1000000000 ns is earlier than"),
        (
            "1 0 0 0 0 0 0 1\n# c\n1 0 0 0 0 0 0 1\n",
            "line 3: timestamp 1000000000 ns is a duplicate",
        ),
        ("1 0 0 0 0 0 0 1\n2 0 0 0 0 0 1\n", "line 2: found 7 fields, needed 8"),
        ("1 0 0 0 0 0 0 1\n2 0 0 0 0 0 0 2\n", "line 2: quaternion norm is 2.0000, needed 1"),
        ("1 0 0 0 0 0 0 1\nx 0 0 0 0 0 0 1\n", "line 2: timestamp 'x'"),
        ("1 0 0 0 0 0 0 1\n1e999999 0 0 0 0 0 0 1\n", "line 2: timestamp '1e999999'"),
        ("1 0 0 0 0 0 0 1\n1e-999999 0 0 0 0 0 0 1\n", "line 2: timestamp '1e-999999'"),
        ("-1 0 0 0 0 0 0 1\n2 0 0 0 0 0 0 1\n", "line 1: timestamp '-1'"),
        ("1 0 0 0 0 0 0 1\n\u0662 0 0 0 0 0 0 1\n", "line 2: timestamp '\u0662'"),
        (f"1 0 0 0 0 0 0 1\n{'9' * 30} 0 0 0 0 0 0 1\n", "line 2: timestamp '999"),
        ("1 0 0 0 0 0 0 1\n2 1e300 0 0 0 0 0 1\n", "line 2: holds 1e+300, needed at most 1e+09 m"),
        (
            "1 0 0 0 0 0 0 1\n9e9 0 0 0 0 0 0 1\n",
            "104166.7 days; needed 0 or later, and at most 30",
        ),
        ("1 0 0 0 0 0 0 1\n2 0 y 0 0 0 0 1\n", "line 2"),
        ("# nothing\n", "no samples, needed at least 2"),
    ],
)
def test_bad_lines_are_shown_with_their_number(tmp_path, lines, words):
    path = tmp_path / "t.txt"
    path.write_text(lines)
    with pytest.raises(DatasetError) as raised:
        read_trajectory(path)
    assert str(path) in str(raised.value)
    assert words in str(raised.value)


@pytest.mark.dataset
def test_real_trajectories_drop_their_lost_poses(data_root):
    trajectory = read_trajectory(
        data_root / "euroc" / "MH_04_difficult" / "visual" / "droid_stereo_Twc_tum.txt"
    )
    assert (len(trajectory), trajectory.dropped) == (2031, 2)
