import os
import shutil
from pathlib import Path

import pytest

from helpers import simulated_window
from maci2.consistency import calibrate, initialize
from maci2.simulation import SimulationConfig, simulate
from maci2.simulation.rendering.images import RenderConfig, render_recording

HERE = Path(__file__).parent


def pytest_configure(config):
    # Raised only while compiling, so as an error it would fail the first run on a machine and
    # pass the second.
    config.addinivalue_line("filterwarnings", "ignore::numba.core.errors.NumbaWarning")


@pytest.fixture(scope="session", autouse=True)
def compiled_kernels():
    """Compile the numerical kernels once, so that no single test pays for it."""
    window = simulated_window(steps=5)
    initialize(window.imu, window.vision, window.truth.T_b_c)
    calibrate(window.imu, window.vision)


@pytest.fixture(scope="session")
def small_files():
    """Folder of the committed ten-line recordings."""
    return HERE / "data"


@pytest.fixture
def small_copy(small_files, tmp_path):
    """Copies one of the committed recordings to where it may be damaged."""

    def copy(name):
        return Path(shutil.copytree(small_files / name, tmp_path / name))

    return copy


@pytest.fixture(scope="session")
def rendered(tmp_path_factory):
    """Three seconds of a drone's flight with rendered stereo images at 10 Hz; not to be changed."""
    folder = tmp_path_factory.mktemp("rendered") / "flight"
    config = SimulationConfig(kind="drone", duration_s=3.0, camera_rate_hz=10.0, seed=4)
    render_recording(simulate(config), folder, RenderConfig(rate_hz=10.0, seed=1))
    return folder


@pytest.fixture
def rendered_copy(rendered, tmp_path):
    """A copy that a test may damage."""
    return Path(shutil.copytree(rendered, tmp_path / "damaged"))


@pytest.fixture(scope="session")
def data_root():
    """Folder of the real recordings; tests that ask for it are skipped where there is none."""
    default = HERE.parents[1] / "shared" / "data"
    root = Path(os.environ.get("MACI2_DATA", default))
    if not root.is_dir():
        pytest.skip("no recordings: set MACI2_DATA to their folder")
    return root
