"""Which samples a window needs, and what is said where they are missing."""

from dataclasses import replace

import numpy as np
import pytest
from imu_cases import (
    ends,
    samples,
)

from helpers import (
    exact_window,
    simulated_window,
)
from maci2.errors import DatasetError, MeasurementError
from maci2.geometry import se3_inv
from maci2.imu import BiasPrior, preintegrate
from maci2.imu.measurements import rounding_variance


def test_a_gap_inside_the_window_is_named_with_place_and_length():
    imu = samples()
    keep = np.r_[0:100, 120:201]
    cut = replace(
        imu, stamps_ns=imu.stamps_ns[keep], gyro=imu.gyro[keep], acc=imu.acc[keep],
        var_gyro=imu.var_gyro[keep], var_acc=imu.var_acc[keep], source="imu0/data.csv",
    )  # fmt: skip
    with pytest.raises(DatasetError) as raised:
        preintegrate(cut, ends(cut))
    message = str(raised.value)
    for part in ("imu0/data.csv", "105.0 ms", f"after timestamp {imu.stamps_ns[99]} ns", "at most"):
        assert part in message
    # A window beside the gap is none of its business.
    preintegrate(cut, cut.stamps_ns[[0, 99]])


@pytest.mark.parametrize(("early_ns", "late_ns"), [(1, 0), (0, 1)])
def test_a_window_outside_the_samples_is_named_with_both_ranges(early_ns, late_ns):
    imu = replace(samples(), source="imu0/data.csv")
    first, last = int(imu.stamps_ns[0]), int(imu.stamps_ns[-1])
    with pytest.raises(DatasetError) as raised:
        preintegrate(imu, np.array([first - early_ns, last + late_ns]))
    message = str(raised.value)
    for part in (
        "imu0/data.csv",
        f"{first}..{last}",
        f"{first - early_ns}..{last + late_ns}",
        "drop",
    ):
        assert part in message


def test_the_samples_between_two_stamps_give_the_same_preintegration():
    imu = samples()
    stamps_ns = imu.stamps_ns[[20, 90]] + 2_500_000
    part = imu.between(int(stamps_ns[0]), int(stamps_ns[1]))
    assert len(part.stamps_ns) == 72
    np.testing.assert_array_equal(
        preintegrate(part, stamps_ns).cov, preintegrate(imu, stamps_ns).cov
    )


def test_data_sheet_variances_are_densities_times_the_rate():
    window = simulated_window(seed=1)
    # 200 Hz of a density of 2e-3 m/s^2/sqrt(Hz).
    np.testing.assert_allclose(window.imu.var_acc, 2e-3**2 * 200.0, rtol=1e-12)
    np.testing.assert_allclose(window.imu.var_gyro, 1.6968e-4**2 * 200.0, rtol=1e-12)
    assert not window.imu.cov_0.any()


def test_the_gyroscope_turns_with_the_camera():
    window = exact_window("handheld", "midpoint", seed=2)
    truth = window.truth
    pre = preintegrate(window.imu, truth.stamps_ns, truth.gyro_bias, truth.acc_bias)
    R_b_c = truth.T_b_c[:3, :3]
    for k, T_ck_ck1 in enumerate(window.vision.Ts_ck_ck1):
        np.testing.assert_allclose(R_b_c @ T_ck_ck1[:3, :3] @ R_b_c.T, pre.gamma[k], atol=1e-12)
        T_bk_bk1 = se3_inv(truth.Ts_c0_b[k]) @ truth.Ts_c0_b[k + 1]
        np.testing.assert_allclose(T_bk_bk1[:3, :3], pre.gamma[k], atol=1e-12)


@pytest.mark.parametrize("name", ["std_gyro", "std_acc"])
def test_a_bias_prior_without_spread_is_refused_by_name(name):
    with pytest.raises(MeasurementError, match=rf"BiasPrior\.{name} is .* needed above 0"):
        BiasPrior(**{name: np.array([0.1, 0.0, 0.1])})


@pytest.mark.parametrize(
    ("slope", "shaken", "least"),
    [(0.0, 0.0, 0.8), (0.02, 0.0, 0.8), (0.0, 2.0, 0.8), (1.0, 0.0, 0)],
)
def test_rounding_is_as_large_as_it_is_in_sampled_signals(slope, shaken, least):
    """The mean of a signal that stays, creeps or moves, rounded to steps of 0.5. What passes evenly
    through whole steps is better than stated: its errors within a run cancel."""
    rng = np.random.default_rng(3)
    n, step, ratios = 200, 0.5, []
    for _ in range(400):
        exact = rng.uniform(-5.0, 5.0, 3) + slope * np.linspace(0.0, 1.0, n)[:, None]
        exact = exact + shaken * rng.normal(size=(n, 3))
        exact = np.vstack([exact, exact[-1] + [[step], [-step]] * np.ones(3)])
        rounded = step * np.round(exact / step)
        predicted = rounding_variance(rounded)[:n].sum(axis=0)
        ratios.append((rounded - exact)[:n].sum(axis=0) ** 2 / predicted)
    assert least < np.mean(ratios) < 1.3


def test_readings_that_never_repeat_show_no_rounding():
    rng = np.random.default_rng(4)
    assert (rounding_variance(rng.normal(size=(50, 3))) == 0.0).all()
    assert (rounding_variance(np.zeros((50, 3))) == 0.0).all()
