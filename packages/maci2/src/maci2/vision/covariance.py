"""Covariances of single matches, learned or not, and errors of the calibration that all share.

Eq. 6 averages match errors as if they were independent. A calibrated rig also errs in its scale,
in where the camera sits on the body and in its timestamps. The scale is the same in all relative
poses of a recording and is returned as such (`RelativePoses.std_scale`); the other errors act on
each pose and are added to its covariance. Spreads of rotation, lever arm and scale are those of a
calibrated device (`calibration_prior`); docs/research/vision.md compares them with real images.
"""

import hashlib
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Literal, Protocol

import numpy as np

from maci2.calibration_prior import CALIBRATED
from maci2.errors import OptionError
from maci2.files import read_bytes
from maci2.geometry import se3_adj, se3_log
from maci2.model_card import Card, CardKind
from maci2.types import Array
from maci2.vision.match_features import INPUTS, MatchFeatures

ModelName = Literal["learned", "fixed", "structure", "chi2"]
"""chi2 is `fixed`, scaled afterwards by the residuals of the pose."""

FIXED_PX = 0.3
OUTPUTS = 10
"""Network outputs: lower triangle of a 4x4 Cholesky factor, by rows, diagonal as logarithm."""

BUNDLED = "match_covariance.onnx"
WEIGHTS = resources.files("maci2.vision") / "weights"
CHECKSUMS = "SHA256SUMS"

MAX_WEIGHT_BYTES = 1 << 28

MIN_STD_PX, MAX_STD_PX = 0.003, 30.0

METADATA_KEY = "maci2_match_covariance"
"""Key of the card in a weight file's metadata."""

FORMAT = 2
"""Version of the weight files; raised when inputs, outputs or the card change."""

AXES = ("u1", "v1", "d0", "d1")


class MatchCard(Card):
    """Everything a user should know of the weights of the match covariance."""

    format: int
    package_version: str
    inputs: int
    """Numbers read per match."""

    scenes: int
    held_out_scenes: int
    matches: int
    seed: int
    epochs: int

    outliers: float
    """Share of held-out matches beyond 5 standard deviations, left to the robust loss."""

    axis_nees: tuple[float, float, float, float]
    """NEES of the other held-out matches per axis, before the calibration stage."""

    pose_nees: float
    """NEES per degree of freedom of the held-out relative poses, before the calibration stage."""

    beyond_sigmas: tuple[float, float]
    """Shares of the held-out relative poses beyond 3 and 5 standard deviations, after it."""

    limits: list[str]

    def text(self) -> str:
        """The card as lines of text."""
        axes = ", ".join(
            f"{axis} {value:.2f}" for axis, value in zip(AXES, self.axis_nees, strict=True)
        )
        lines = [
            f"covariance of stereo matches, written by maci2 {self.package_version}",
            f"trained on      {self.matches} matches in {self.scenes} rendered rooms, no real "
            "image",
            f"calibrated on   {self.held_out_scenes} rooms not trained on",
            f"seed            {self.seed}, {self.epochs} epochs",
            f"held-out NEES   before calibration, which makes them 1: {axes}; then poses "
            f"{self.pose_nees:.2f}",
            f"outliers        {100 * self.outliers:.1f} % of held-out matches",
            "tails           held-out poses beyond 3 and 5 standard deviations, matched directly: "
            + " and ".join(f"{100 * share:.1f} %" for share in self.beyond_sigmas),
        ]
        return "\n".join(lines + [f"limit           {limit}" for limit in self.limits])


MATCH_CARD = CardKind(MatchCard, "no match covariance", METADATA_KEY, FORMAT, "maci2 train-vision")


class CovarianceModel(Protocol):
    """Covariances (n, 4, 4) [px^2] of the matches that some features describe."""

    def __call__(self, features: MatchFeatures) -> Array: ...


@dataclass(frozen=True)
class FixedNoise:
    """The same for all."""

    std_px: float = FIXED_PX

    def __call__(self, features: MatchFeatures) -> Array:
        cov = self.std_px**2 * np.eye(4)
        return np.broadcast_to(cov, (len(features.tensors), 4, 4)).copy()


@dataclass(frozen=True)
class StructureTensor:
    """What least squares says: grey noise through the inverse of the patch's gradients."""

    def __call__(self, features: MatchFeatures) -> Array:
        xx, xy, yy = features.tensors.T + np.array([[1.0], [0.0], [1.0]])
        grey = features.residual_vars + 1.0 / 12.0
        determinant = np.maximum(xx * yy - xy * xy, 1e-6 * xx * yy)
        covs = np.zeros((len(xx), 4, 4))
        covs[:, 0, 0] = grey[:, 0] * yy / determinant
        covs[:, 1, 1] = grey[:, 0] * xx / determinant
        covs[:, 0, 1] = covs[:, 1, 0] = -grey[:, 0] * xy / determinant
        covs[:, 2, 2] = grey[:, 1] / xx
        covs[:, 3, 3] = grey[:, 2] / xx
        return covs + MIN_STD_PX**2 * np.eye(4)


class Learned:
    """The network, run without the framework that trained it."""

    def __init__(self, path: Path | None = None):
        import onnxruntime

        source = str(path or BUNDLED)
        weights = _weights(path)
        self._digest = hashlib.sha256(weights).hexdigest()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        try:
            self._session = onnxruntime.InferenceSession(
                weights, options, providers=["CPUExecutionProvider"]
            )
            metadata = dict(self._session.get_modelmeta().custom_metadata_map)
        except Exception as error:  # onnxruntime has no common base class for its errors
            raise OptionError(
                f"{source}: not an ONNX file that can be read; copy it again, or train it again "
                "with `maci2 train-vision`."
            ) from error
        self.card = MATCH_CARD.read(metadata, source)
        if self.card.inputs != INPUTS:
            raise OptionError(
                f"{source}: reads {self.card.inputs} numbers per match, this version gives "
                f"{INPUTS}; train it again with `maci2 train-vision`."
            )
        self._require_working(source)

    def _require_working(self, source: str) -> None:
        """Raise unless the network runs and gives finite numbers."""
        try:
            (outputs,) = self._session.run(None, {"inputs": np.zeros((1, INPUTS), np.float32)})
            works = outputs.shape == (1, OUTPUTS) and np.isfinite(outputs).all()
        except Exception:  # onnxruntime has no common base class for its errors
            works = False
        if not works:
            raise OptionError(
                f"{source}: weights that cannot be used: they give no {OUTPUTS} finite numbers; "
                "copy the file again, or train it again with `maci2 train-vision`."
            )

    def __repr__(self) -> str:
        return f"Learned(sha256={self._digest})"

    def __call__(self, features: MatchFeatures) -> Array:
        if len(features.inputs) == 0:
            return np.empty((0, 4, 4))
        (outputs,) = self._session.run(None, {"inputs": features.inputs})
        return covariances(outputs.astype(np.float64))


def covariances(outputs: Array) -> Array:
    """(n, OUTPUTS) of the network -> (n, 4, 4) [px^2], in double precision."""
    lower = np.zeros((len(outputs), 4, 4))
    rows, columns = np.tril_indices(4)
    lower[:, rows, columns] = outputs
    diagonal = np.arange(4)
    bounded = np.clip(outputs[:, rows == columns], np.log(MIN_STD_PX), np.log(MAX_STD_PX))
    lower[:, diagonal, diagonal] = np.exp(bounded)
    # Below the diagonal, entries are shares of their row's own spread.
    shares = np.tril(lower, -1) * np.exp(bounded)[:, :, None]
    lower = shares + lower * np.eye(4)
    return lower @ np.swapaxes(lower, 1, 2)


def covariance_model(name: str, weights: Path | None = None) -> CovarianceModel:
    """Covariance model by the name of the option."""
    if name == "learned":
        return Learned(weights)
    if name in ("fixed", "chi2"):
        return FixedNoise()
    if name == "structure":
        return StructureTensor()
    raise OptionError(
        f"match covariance is '{name}'; choose one of learned, fixed, structure, chi2."
    )


def bundled_digest() -> str:
    """SHA-256 of the bundled weights, as listed in the package."""
    return (WEIGHTS / CHECKSUMS).read_text().split()[0]


def _weights(path: Path | None) -> bytes:
    if path is not None:
        if not path.is_file():
            raise OptionError(f"{path}: no such file; `maci2 train-vision` writes one.")
        return read_bytes(path, "weights of a match covariance", MAX_WEIGHT_BYTES, OptionError)
    content = (WEIGHTS / BUNDLED).read_bytes()
    found, needed = hashlib.sha256(content).hexdigest(), bundled_digest()
    if found != needed:
        raise OptionError(
            f"{BUNDLED}: SHA-256 of the weights is {found}, needed {needed}; the file was changed "
            "or cut short. Install the package again."
        )
    return content


@dataclass(frozen=True)
class CalibrationUncertainty:
    """How far a measured calibration can be trusted: standard deviations per axis."""

    scale: float = CALIBRATED.stereo_scale
    """Share by which all translations are off together; no part of a single pose's covariance."""

    rotation: float = CALIBRATED.rotation
    """[rad] Rotation of the camera on the body that it moves with."""

    lever: float = CALIBRATED.lever_m
    """[m] Place of the camera on that body."""

    jitter_s: float = CALIBRATED.camera_jitter_s
    """Jitter of one timestamp against the next."""

    offset_s: float = CALIBRATED.pose_clock_s
    """Offset of all timestamps together. A constant velocity hides it; a change of velocity between
    the keyframes does not."""

    acceleration: float = 0.6
    """[m/s^2] of a camera that is carried or flown, per axis."""

    angular_acceleration: float = 1.0
    """[rad/s^2]"""

    rest_rotation: float = 9e-5
    """[rad] 0.005 deg, 0.04 px: what pixel locking and a trembling mount leave when stationary."""

    rest_translation: float = 1e-4
    """[m]"""

    rest_px: float = 2.0
    """Motion of points below which the camera counts as stationary more and more."""


EXACT_CALIBRATION = CalibrationUncertainty(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
"""Uncertainty of a rig whose calibration is exact."""


def calibration_covariance(
    errors: CalibrationUncertainty, T_ck_ck1: Array, dt: float, displacement_px: float
) -> Array:
    """(6, 6) to add to Eq. 6, left, [rho, phi].

    `dt` is the time between the keyframes [s], `displacement_px` how far points moved in the image.
    """
    T_ck_ck1 = np.ascontiguousarray(T_ck_ck1)
    twist = se3_log(T_ck_ck1)
    # A camera frame that is off by x turns T into Exp(-x) T Exp(x).
    by_frame = se3_adj(T_ck_ck1) - np.eye(6)
    frame = np.repeat([errors.lever**2, errors.rotation**2], 3)
    # Both keyframes have a timestamp of their own, and each moves its end along the motion.
    jitter = 2.0 * (errors.jitter_s / dt) ** 2 * np.outer(twist, twist)
    moving = 1.0 - np.exp(-displacement_px / errors.rest_px)
    change = moving * errors.offset_s * dt
    translation = (change * errors.acceleration) ** 2 + errors.rest_translation**2
    rotation = (change * errors.angular_acceleration) ** 2 + errors.rest_rotation**2
    rest = np.diag(np.repeat([translation, rotation], 3))
    return np.asarray(by_frame * frame @ by_frame.T + jitter + rest)
