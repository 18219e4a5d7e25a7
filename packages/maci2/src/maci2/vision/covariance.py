"""Covariances of single matches, learned or not, and errors of the calibration that all share.

What the models read of a match are numbers by which it may be well or badly determined: patches,
residuals, gradients, backward errors. Part of them measure how well two patches fix the shift
between them: what least squares promises, how much the shifts of their parts differ, and where the
middle alone would go.

Eq. 6 averages match errors as if they were independent. A calibrated rig also errs in its scale,
in where the camera sits on the body and in its timestamps. The scale is the same in all relative
poses of a recording and is returned as such (`RelativePoses.std_scale`); the other errors act on
each pose and are added to its covariance. Spreads of rotation, lever arm and scale are those of a
calibrated device (`calibration_prior`); docs/research/vision.md compares them with real images.
"""

import hashlib
import math
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from maci2.calibration_prior import CALIBRATED
from maci2.errors import OptionError
from maci2.files import read_bytes
from maci2.geometry import se3_adj, se3_log
from maci2.jit import kernel
from maci2.model_card import Card, CardKind
from maci2.sensors.stereo import Image
from maci2.types import Array
from maci2.vision.two_frame import Matches

MATCHED_SIDE = 21
"""Side of the patches from which shifts are estimated [px]: as large as those matched."""

PARTS = 3
"""Parts along each side. Residuals of one part err together: an edge of depth, a moving object,
a smear."""

MIDDLE = 4
"""Half the side of the middle, without its own pixel [px]."""

SOFT_CONTRAST = 2.0
"""[grey levels] Keeps flat patches from being blown up to pure noise."""

SHIFTS = 8
"""Numbers that `shift_evidence` gives."""

_LEAST = 1e-3
"""[px] Smaller spreads are not distinguished."""


@kernel(per_pixel=True)
def sample(image: Image, uv: Array, patch: Array) -> None:
    """Bilinear square patch around a pixel, moved into the image where it reaches out of it."""
    rows, columns = image.shape
    side = len(patch)
    x = min(max(uv[0] - side // 2, 0.0), columns - side - 1.0)
    y = min(max(uv[1] - side // 2, 0.0), rows - side - 1.0)
    i0, j0 = int(x), int(y)
    a, b = x - i0, y - j0
    w00, w01, w10, w11 = (1.0 - a) * (1.0 - b), a * (1.0 - b), (1.0 - a) * b, a * b
    for j in range(side):
        # Cut out beforehand: an index that may be negative keeps the compiler from taking several
        # pixels at once.
        above = image[j0 + j, i0 : i0 + side + 1]
        below = image[j0 + j + 1, i0 : i0 + side + 1]
        for i in range(side):
            patch[j, i] = w00 * above[i] + w01 * above[i + 1] + w10 * below[i] + w11 * below[i + 1]


@kernel(per_pixel=True, fastmath=True)
def spread_of(patch: Array) -> tuple[float, float]:
    """Mean and standard deviation of a patch."""
    total, squares = 0.0, 0.0
    for j in range(patch.shape[0]):
        for i in range(patch.shape[1]):
            total += patch[j, i]
            squares += patch[j, i] * patch[j, i]
    mean = total / patch.size
    return mean, math.sqrt(max(squares / patch.size - mean * mean, 0.0))


@kernel(per_pixel=True, forceinline=True)
def _add_products(sums: Array, gx: float, gy: float, e: float) -> None:
    sums[0] += gx * gx
    sums[1] += gx * gy
    sums[2] += gy * gy
    sums[3] += gx * e
    sums[4] += gy * e


@kernel(per_pixel=True)
def normal_parts(patch: Array, other: Array, parts: Array, middle: Array) -> float:
    """Sums of gx^2, gx gy, gy^2, gx e, gy e over the parts (PARTS, PARTS, 5) and over the middle
    (5,), e what gain and offset leave of the difference; its mean square is returned."""
    mean, std = spread_of(patch)
    mean1, std1 = spread_of(other)
    gain = (std + SOFT_CONTRAST) / (std1 + SOFT_CONTRAST)
    parts.fill(0.0)
    middle.fill(0.0)
    total = 0.0
    inner = MATCHED_SIDE - 2
    for j in range(1, MATCHED_SIDE - 1):
        row = (j - 1) * PARTS // inner
        for i in range(1, MATCHED_SIDE - 1):
            gx = 0.5 * (patch[j, i + 1] - patch[j, i - 1])
            gy = 0.5 * (patch[j + 1, i] - patch[j - 1, i])
            e = (patch[j, i] - mean) - gain * (other[j, i] - mean1)
            total += e * e
            _add_products(parts[row, (i - 1) * PARTS // inner], gx, gy, e)
            if abs(j - MATCHED_SIDE // 2) <= MIDDLE and abs(i - MATCHED_SIDE // 2) <= MIDDLE:
                _add_products(middle, gx, gy, e)
    return total / (inner * inner)


@kernel(per_pixel=True)
def _inverse(xx: float, xy: float, yy: float) -> tuple[float, float, float]:
    """Inverse of a symmetric 2x2 matrix that may be singular."""
    xx, yy = xx + 1.0, yy + 1.0
    determinant = max(xx * yy - xy * xy, 1e-4 * xx * yy)
    return yy / determinant, -xy / determinant, xx / determinant


@kernel(per_pixel=True)
def _log_spread(variance: float) -> float:
    return 0.5 * math.log(max(variance, 0.0) + _LEAST * _LEAST)


@kernel(per_pixel=True)
def shift_evidence(parts: Array, middle: Array, grey_var: float, evidence: Array) -> None:
    """Logarithms of spreads of the shift (u, v) and their correlation, by least squares with grey
    noise of `grey_var`, then by the parts (the sandwich of residuals that err together); then how
    far the middle alone would move each [px], as logarithms.
    """
    xx = xy = yy = 0.0
    s_xx = s_xy = s_yy = 0.0
    for row in range(PARTS):
        for column in range(PARTS):
            part = parts[row, column]
            xx, xy, yy = xx + part[0], xy + part[1], yy + part[2]
            s_xx += part[3] * part[3]
            s_xy += part[3] * part[4]
            s_yy += part[4] * part[4]
    i_xx, i_xy, i_yy = _inverse(xx, xy, yy)
    evidence[0] = _log_spread(grey_var * i_xx)
    evidence[1] = _log_spread(grey_var * i_yy)
    evidence[2] = i_xy / math.sqrt(i_xx * i_yy)
    u0, u1 = i_xx * s_xx + i_xy * s_xy, i_xx * s_xy + i_xy * s_yy
    v0, v1 = i_xy * s_xx + i_yy * s_xy, i_xy * s_xy + i_yy * s_yy
    var_u, var_v, cov_uv = u0 * i_xx + u1 * i_xy, v0 * i_xy + v1 * i_yy, u0 * i_xy + u1 * i_yy
    evidence[3] = _log_spread(var_u)
    evidence[4] = _log_spread(var_v)
    evidence[5] = cov_uv / (math.sqrt(max(var_u * var_v, 0.0)) + _LEAST * _LEAST)
    i_xx, i_xy, i_yy = _inverse(middle[0], middle[1], middle[2])
    evidence[6] = math.log(min(abs(i_xx * middle[3] + i_xy * middle[4]), 5.0) + 0.01)
    evidence[7] = math.log(min(abs(i_xy * middle[3] + i_yy * middle[4]), 5.0) + 0.01)


@kernel(per_pixel=True)
def disparity_evidence(parts: Array, middle: Array, evidence: Array) -> None:
    """The same of a shift along rows alone: spread by the parts, way of the middle."""
    xx = s_xx = 0.0
    for row in range(PARTS):
        for column in range(PARTS):
            xx += parts[row, column, 0]
            s_xx += parts[row, column, 3] ** 2
    evidence[0] = _log_spread(s_xx / (xx + 1.0) ** 2)
    evidence[1] = math.log(min(abs(middle[3] / (middle[0] + 1.0)), 5.0) + 0.01)


@kernel(per_pixel=True)
def sharpness_change(parts: Array, parts_back: Array) -> float:
    """Logarithm of the second patch's gradients over the first one's."""
    first = second = 1.0
    for row in range(PARTS):
        for column in range(PARTS):
            first += parts[row, column, 0] + parts[row, column, 2]
            second += parts_back[row, column, 0] + parts_back[row, column, 2]
    return 0.5 * math.log(second / first)


Floats = NDArray[np.float32]

SIDE = 15
"""Side of the patches whose pixels the network reads [px]."""

BLOCK = 3
CELLS = SIDE // BLOCK
PATCH_INPUTS = 4 * CELLS * CELLS
RESIDUALS = 9
EVIDENCE = SHIFTS + 5
TRACK_SCALARS = 20
INPUTS = PATCH_INPUTS + RESIDUALS + EVIDENCE + TRACK_SCALARS
"""Numbers that the network reads of one match."""


@dataclass(frozen=True)
class Checks:
    """What following points forward, backward and across measured."""

    backward: Array
    """(n, 3) how far the way back missed: frame k to k+1, stereo in k, stereo in k+1 [px]."""

    row_errors: Array
    """(n, 2) how far the stereo matches lie off their row in k and k+1 [px], offset removed."""

    right_rows: Array
    """(n, 2) rows of the stereo matches in both right images [px]."""

    relief: Array
    """(n, 2) around the point in frame k: how much rough disparities differ [px], and the share of
    pixels that have one."""


@dataclass(frozen=True)
class MatchFeatures:
    """Inputs of the covariance models, one row per match."""

    inputs: Floats
    """(n, INPUTS) for the network."""

    tensors: Array
    """(n, 3) structure tensor of the patch: sums of gx^2, gx gy, gy^2 [grey^2 / px^2]."""

    residual_vars: Array
    """(n, 3) of the grey difference: k to k+1, stereo in k, stereo in k+1 [grey^2]."""


Images = tuple[Image, Image, Image, Image, Image, Image]
"""The rectified images of two keyframes: left and right of k, left and right of k+1, then both left
images without their exposure, in which points were followed."""


def gather(images: Images, matches: Matches, checks: Checks) -> MatchFeatures:
    """Inputs of the covariance models for matches between the images of two keyframes."""
    n = len(matches)
    inputs = np.empty((n, INPUTS), np.float32)
    tensors, residual_vars = np.empty((n, 3)), np.empty((n, 3))
    places = np.empty((n, 4, 2))
    places[:, 0], places[:, 2] = matches.uv0, matches.uv1
    places[:, 1, 0] = matches.uv0[:, 0] - matches.disparity0
    places[:, 3, 0] = matches.uv1[:, 0] - matches.disparity1
    places[:, 1, 1], places[:, 3, 1] = checks.right_rows.T
    _describe(images, places, inputs, tensors, residual_vars)
    # The last numbers: geometry of the tracks and the noise that linear theory predicts for them.
    moved = matches.uv1 - matches.uv0
    xx, xy, yy = tensors.T
    root = np.hypot(xx - yy, 2.0 * xy)
    large, small = 0.5 * (xx + yy + root), np.maximum(0.5 * (xx + yy - root), 1e-3)
    scalars = [
        np.log(checks.backward + 0.01),
        np.log(np.abs(checks.row_errors) + 0.02),
        np.log(np.linalg.norm(moved, axis=1) + 0.05),
        moved / 50.0,
        np.log(matches.disparity0 + 0.5),
        np.clip(matches.disparity1 - matches.disparity0, -30.0, 30.0) / 5.0,
        np.log(large + 1.0),
        np.log(small + 1.0),
        np.where(root > 0.0, (xx - yy) / np.maximum(root, 1e-9), 0.0),
        np.where(root > 0.0, 2.0 * xy / np.maximum(root, 1e-9), 0.0),
        0.5 * np.log((residual_vars[:, 0] + 0.5) / small),
        0.5 * np.log((residual_vars[:, 1:] + 0.5) / (xx[:, None] + 1.0)),
        np.full(n, math.log(pixel_noise(images[0]) + 0.3)),
        np.log(checks.relief[:, 0] + 0.1),
        checks.relief[:, 1],
    ]
    inputs[:, INPUTS - TRACK_SCALARS :] = np.column_stack(scalars)
    return MatchFeatures(inputs, tensors, residual_vars)


def pixel_noise(image: Image) -> float:
    """Rough standard deviation of a pixel's noise [grey levels], from second differences."""
    rows = image[::4].astype(np.int16)
    second = np.abs(rows[:, 2:] - 2 * rows[:, 1:-1] + rows[:, :-2])
    # The median of small natural numbers is found by counting them.
    below = np.cumsum(np.bincount(second.ravel()))
    median = np.searchsorted(below, [(second.size - 1) // 2 + 1, second.size // 2 + 1]).mean()
    # Half of all pixels lie on flat ground, where the second difference has variance 6.
    return float(median / 0.6745 / math.sqrt(6.0))


@kernel(per_pixel=True)
def _difference(patches: Array, mean: Array, std: Array, k: int, m: int) -> float:
    """Mean squared grey difference of two patches after gain and offset are matched."""
    patch, other = patches[k], patches[m]
    gain = (std[k] + SOFT_CONTRAST) / (std[m] + SOFT_CONTRAST)
    total = 0.0
    for j in range(SIDE):
        for i in range(SIDE):
            e = (patch[j, i] - mean[k]) - gain * (other[j, i] - mean[m])
            total += e * e
    return total / (SIDE * SIDE)


@kernel(per_pixel=True)
def _gradients(patch: Array, tensor: Array) -> None:
    xx = xy = yy = 0.0
    for j in range(1, SIDE - 1):
        for i in range(1, SIDE - 1):
            gx = 0.5 * (patch[j, i + 1] - patch[j, i - 1])
            gy = 0.5 * (patch[j + 1, i] - patch[j - 1, i])
            xx += gx * gx
            xy += gx * gy
            yy += gy * gy
    tensor[0], tensor[1], tensor[2] = xx, xy, yy


@kernel(per_pixel=True, nogil=True)
def _describe(
    images: Images, places: Array, inputs: Floats, tensors: Array, residual_vars: Array
) -> None:
    """Patches averaged over blocks, contrast, gains and residuals; then the shifts that
    the patches and their parts constrain, in time and across in both frames."""
    left0, right0, left1, right1, scaled0, scaled1 = images
    patches = np.empty((4, SIDE, SIDE))
    mean, std = np.empty(4), np.empty(4)
    patch, other = np.empty((2, MATCHED_SIDE, MATCHED_SIDE))
    parts, back, middle = np.empty((PARTS, PARTS, 5)), np.empty((PARTS, PARTS, 5)), np.empty(5)
    evidence = np.empty(EVIDENCE)
    for n in range(len(places)):
        place = places[n]
        sample(left0, place[0], patches[0])
        sample(right0, place[1], patches[1])
        sample(left1, place[2], patches[2])
        sample(right1, place[3], patches[3])
        at = 0
        for k in range(4):
            mean[k], std[k] = spread_of(patches[k])
            for j in range(CELLS):
                for i in range(CELLS):
                    block = patches[k, BLOCK * j : BLOCK * j + BLOCK, BLOCK * i : BLOCK * i + BLOCK]
                    inputs[n, at] = (block.mean() - mean[k]) / (std[k] + SOFT_CONTRAST)
                    at += 1
        _gradients(patches[0], tensors[n])
        residual_vars[n, 0] = _difference(patches, mean, std, 0, 2)
        residual_vars[n, 1] = _difference(patches, mean, std, 0, 1)
        residual_vars[n, 2] = _difference(patches, mean, std, 2, 3)
        inputs[n, at] = math.log(std[0] + 1.0)
        inputs[n, at + 1] = math.log((std[2] + SOFT_CONTRAST) / (std[0] + SOFT_CONTRAST))
        inputs[n, at + 2] = math.log((std[1] + SOFT_CONTRAST) / (std[0] + SOFT_CONTRAST))
        inputs[n, at + 3] = (mean[2] - mean[0]) / (std[0] + SOFT_CONTRAST)
        inputs[n, at + 4] = (mean[1] - mean[0]) / (std[0] + SOFT_CONTRAST)
        for k in range(3):
            inputs[n, at + 5 + k] = 0.5 * math.log(residual_vars[n, k] + 0.1)
        inputs[n, at + 8] = 0.5 * math.log(_difference(patches, mean, std, 1, 3) + 0.1)
        sample(scaled0, place[0], patch)
        sample(scaled1, place[2], other)
        normal_parts(other, patch, back, middle)
        grey_var = normal_parts(patch, other, parts, middle)
        shift_evidence(parts, middle, grey_var + 0.1, evidence)
        evidence[SHIFTS] = sharpness_change(parts, back)
        sample(left0, place[0], patch)
        sample(right0, place[1], other)
        normal_parts(patch, other, parts, middle)
        disparity_evidence(parts, middle, evidence[SHIFTS + 1 :])
        sample(left1, place[2], patch)
        sample(right1, place[3], other)
        normal_parts(patch, other, parts, middle)
        disparity_evidence(parts, middle, evidence[SHIFTS + 3 :])
        for k in range(EVIDENCE):
            inputs[n, PATCH_INPUTS + RESIDUALS + k] = evidence[k]


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
    """The bound of least squares: grey noise through the inverse of the patch's gradients."""

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
