"""How well two patches fix the shift between them: what least squares says of it, what their parts
say against each other, and what the middle alone would add."""

import math

from maci2.compile import kernel
from maci2.sensors.stereo import Image
from maci2.types import Array

SIDE = 21
"""Side of the patches looked at [px]: as large as those that are matched."""

PARTS = 3
"""Parts along each side. Residuals of one part err together: an edge of depth, a thing that moves,
a smear."""

MIDDLE = 4
"""Half the side of the middle, without its own pixel [px]."""

SOFT_CONTRAST = 2.0
"""[grey levels] Keeps flat patches from being blown up to pure noise."""

SHIFTS = 8
"""Numbers that `shift_evidence` gives."""

_LEAST = 1e-3
"""[px] Smaller spreads are not told from each other."""


@kernel(per_pixel=True)
def sample(image: Image, u: float, v: float, patch: Array) -> None:
    """Bilinear square patch around (u, v), moved into the image where it reaches out of it."""
    rows, columns = image.shape
    side = len(patch)
    x = min(max(u - side // 2, 0.0), columns - side - 1.0)
    y = min(max(v - side // 2, 0.0), rows - side - 1.0)
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
    inner = SIDE - 2
    for j in range(1, SIDE - 1):
        row = (j - 1) * PARTS // inner
        for i in range(1, SIDE - 1):
            gx = 0.5 * (patch[j, i + 1] - patch[j, i - 1])
            gy = 0.5 * (patch[j + 1, i] - patch[j - 1, i])
            e = (patch[j, i] - mean) - gain * (other[j, i] - mean1)
            total += e * e
            part = parts[row, (i - 1) * PARTS // inner]
            part[0] += gx * gx
            part[1] += gx * gy
            part[2] += gy * gy
            part[3] += gx * e
            part[4] += gy * e
            if abs(j - SIDE // 2) <= MIDDLE and abs(i - SIDE // 2) <= MIDDLE:
                middle[0] += gx * gx
                middle[1] += gx * gy
                middle[2] += gy * gy
                middle[3] += gx * e
                middle[4] += gy * e
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
