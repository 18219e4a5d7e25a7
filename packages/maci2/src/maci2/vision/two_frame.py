"""Motion between two stereo frames from matched points, with covariance (Eq. 5, 6 and 71-78).

A match is six numbers [px]: where the point is in the left image of frame k (chosen, so without
error), where it was found in frame k+1, and both disparities. What errs is (u1, v1, d0, d1), with
one 4x4 covariance per match: its blocks are the two point covariances of Eq. 5 and its cross terms
what the errors of both frames have in common.

Compiled parts take arrays with one column per match, so that one instruction works on four matches.
Vectors and matrices of a single match are tuples, which compiled code keeps in registers.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from maci2.geometry import se3, se3_exp, se3_mul
from maci2.geometry.gaussian import chi2_quantile
from maci2.jit import kernel
from maci2.types import Array

Vector = tuple[float, float, float]
Rows = tuple[Vector, Vector, Vector]
Vector4 = tuple[float, float, float, float]
Rows4 = tuple[Vector4, Vector4, Vector4, Vector4]

LIBERTIES = {"contract", "reassoc", "nsz"}
"""Sums may be taken in any order; NaN and infinity stay what they are."""

small = kernel(fastmath=LIBERTIES, forceinline=True)
"""Decorator of what must be inlined into the calling loop, or it takes one match at a time."""


@small
def plus(a: Vector, b: Vector) -> Vector:
    return a[0] + b[0], a[1] + b[1], a[2] + b[2]


@small
def minus(a: Vector, b: Vector) -> Vector:
    return a[0] - b[0], a[1] - b[1], a[2] - b[2]


@small
def scaled(s: float, a: Vector) -> Vector:
    return s * a[0], s * a[1], s * a[2]


@small
def dot(a: Vector, b: Vector) -> float:
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


@small
def dot4(a: Vector4, b: Vector4) -> float:
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2] + a[3] * b[3]


@small
def cross(a: Vector, b: Vector) -> Vector:
    return a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]


@small
def times(A: Rows, b: Vector) -> Vector:
    return dot(A[0], b), dot(A[1], b), dot(A[2], b)


@small
def times4(A: Rows4, b: Vector4) -> Vector4:
    return dot4(A[0], b), dot4(A[1], b), dot4(A[2], b), dot4(A[3], b)


@small
def added(A: Rows, B: Rows) -> Rows:
    return plus(A[0], B[0]), plus(A[1], B[1]), plus(A[2], B[2])


Blocks = tuple[Rows, Rows, Rows, Vector, Vector]

ROBUST_NORM = 3.0
"""Mahalanobis norm at which a match's weight has dropped to a half (Cauchy)."""

MAX_ITERATIONS = 50
COST_SLACK = 0.01
"""The covariances move with the rotation, so the cost may rise a little towards the answer."""
STEP_TOLERANCE = 1e-3
"""Standard deviations of the pose; reweighting converges only linearly, so no less is required."""


@kernel
def matches_last(
    places: Array, covs: Array, focal: float, center: tuple[float, float], baseline: float
) -> tuple[Array, Array]:
    """(8, n) points in frame k, then in frame k+1 [m], then both disparities, from their pixels and
    disparities in both frames (n, 6); and (n, 4, 4) -> (4, 4, n)."""
    seen, covs_last = np.empty((8, len(places))), np.empty((4, 4, len(places)))
    for n in range(len(places)):
        for k in range(2):
            z = focal * baseline / places[n, 3 * k + 2]
            seen[3 * k, n] = (places[n, 3 * k] - center[0]) / focal * z
            seen[3 * k + 1, n] = (places[n, 3 * k + 1] - center[1]) / focal * z
            seen[3 * k + 2, n], seen[6 + k, n] = z, places[n, 3 * k + 2]
        for i in range(4):
            for j in range(4):
                covs_last[i, j, n] = covs[n, i, j]
    return seen, covs_last


@small
def column(columns: Array, first: int, n: int) -> Vector:
    """Three numbers of the n-th match, from row `first` on."""
    return columns[first, n], columns[first + 1, n], columns[first + 2, n]


@small
def rows(matrix: Array) -> Rows:
    """Rows of the upper left 3x3."""
    return (
        (matrix[0, 0], matrix[0, 1], matrix[0, 2]),
        (matrix[1, 0], matrix[1, 1], matrix[1, 2]),
        (matrix[2, 0], matrix[2, 1], matrix[2, 2]),
    )


@small
def symmetric4(covs: Array, n: int) -> Rows4:
    """Rows of the n-th of covariances (4, 4, n), from their upper triangles."""
    uv, ud, ue = covs[0, 1, n], covs[0, 2, n], covs[0, 3, n]
    vd, ve, de = covs[1, 2, n], covs[1, 3, n], covs[2, 3, n]
    return (
        (covs[0, 0, n], uv, ud, ue),
        (uv, covs[1, 1, n], vd, ve),
        (ud, vd, covs[2, 2, n], de),
        (ue, ve, de, covs[3, 3, n]),
    )


@small
def residual_derivative(
    R: Rows, p0: Vector, R_p1: Vector, z1: float, d0: float, d1: float, focal: float
) -> tuple[Vector4, Vector4, Vector4]:
    """Rows of D (3, 4), derivative of p0 - T p1 by (u1, v1, d0, d1)."""
    a, b, c = -z1 / focal, -1.0 / d0, 1.0 / d1
    return (
        (a * R[0][0], a * R[0][1], b * p0[0], c * R_p1[0]),
        (a * R[1][0], a * R[1][1], b * p0[1], c * R_p1[1]),
        (a * R[2][0], a * R[2][1], b * p0[2], c * R_p1[2]),
    )


@small
def information(D: tuple[Vector4, Vector4, Vector4], cov: Rows4) -> Rows:
    """W, inverse of S = D cov D^T."""
    cov_D0, cov_D1, cov_D2 = times4(cov, D[0]), times4(cov, D[1]), times4(cov, D[2])
    s00, s01, s02 = dot4(D[0], cov_D0), dot4(D[0], cov_D1), dot4(D[0], cov_D2)
    s11, s12, s22 = dot4(D[1], cov_D1), dot4(D[1], cov_D2), dot4(D[2], cov_D2)
    # By S = L diag(s00, d1, d2) L^T: a distant point is a million times less certain along its ray
    # than across, and cofactors over the determinant would lose twice as many digits.
    l10, l20 = s01 / s00, s02 / s00
    d1, rest = s11 - l10 * s01, s12 - l10 * s02
    l21 = rest / d1
    w22 = 1.0 / (s22 - l20 * s02 - l21 * rest)
    w12, w02 = -l21 * w22, (l10 * l21 - l20) * w22
    w11, w01 = 1.0 / d1 - l21 * w12, -l10 / d1 - l21 * w02
    return (1.0 / s00 - l10 * w01 - l20 * w02, w01, w02), (w01, w11, w12), (w02, w12, w22)


@small
def normal_blocks(q: Vector, W: Rows, r: Vector) -> Blocks:
    """What a match gives to J^T W J and J^T W r, J = [-I, [q]x] with q = T p1 (Eq. 75).

    W, W [q]x, the transpose of [q]x^T W [q]x, then W r and [q]x^T W r.
    """
    # Rows of W [q]x are W_i x q; columns of [q]x^T M are M's columns x q.
    M0, M1, M2 = cross(W[0], q), cross(W[1], q), cross(W[2], q)
    N = (
        cross((M0[0], M1[0], M2[0]), q),
        cross((M0[1], M1[1], M2[1]), q),
        cross((M0[2], M1[2], M2[2]), q),
    )
    W_r = times(W, r)
    return W, (M0, M1, M2), N, W_r, cross(W_r, q)


@kernel(fastmath=LIBERTIES)
def _linearize(
    T: Array, seen: Array, covs: Array, focal: float, weights: Array, chi2: Array
) -> Blocks:
    """Sum of every match's blocks at T; its weight is rebuilt with T's rotation."""
    R, t = rows(T), (T[0, 3], T[1, 3], T[2, 3])
    zero = (0.0, 0.0, 0.0)
    W_sum, M_sum, N_sum = (zero, zero, zero), (zero, zero, zero), (zero, zero, zero)
    rho_sum, phi_sum = zero, zero
    for n in range(len(chi2)):
        p0, p1 = column(seen, 0, n), column(seen, 3, n)
        R_p1 = times(R, p1)
        q = plus(R_p1, t)
        r = minus(p0, q)
        D = residual_derivative(R, p0, R_p1, p1[2], seen[6, n], seen[7, n], focal)
        W = information(D, symmetric4(covs, n))
        m2 = dot(r, times(W, r))
        w = 1.0 / (1.0 + m2 / (ROBUST_NORM**2))
        chi2[n], weights[n] = m2, w
        W = (scaled(w, W[0]), scaled(w, W[1]), scaled(w, W[2]))
        W, M, N, W_r, q_W_r = normal_blocks(q, W, r)
        W_sum, M_sum, N_sum = added(W_sum, W), added(M_sum, M), added(N_sum, N)
        rho_sum, phi_sum = plus(rho_sum, W_r), plus(phi_sum, q_W_r)
    return W_sum, M_sum, N_sum, rho_sum, phi_sum


@kernel
def normal_equations(blocks: Blocks) -> tuple[Array, Array]:
    """H (6, 6) and gradient (6,) out of their blocks."""
    W, M, N, W_r, q_W_r = blocks
    H, g = np.empty((6, 6)), np.empty(6)
    for i in range(3):
        for j in range(3):
            H[i, j] = W[i][j]
            H[i, 3 + j] = H[3 + j, i] = -M[i][j]
            H[3 + i, 3 + j] = N[max(i, j)][min(i, j)]
        g[i], g[3 + i] = -W_r[i], q_W_r[i]
    return H, g


@kernel
def cauchy_cost(chi2: Array) -> float:
    """Sum of c^2 log(1 + chi2 / c^2), as logarithms of products: there are far fewer of those."""
    total, product = 0.0, 1.0
    for m2 in chi2:
        product *= 1.0 + m2 / ROBUST_NORM**2
        if product > 1e100:
            total += math.log(product)
            product = 1.0
    return ROBUST_NORM**2 * (total + math.log(product))


@kernel
def solve_spd(A: Array, b: Array) -> tuple[Array, bool]:
    """x with A x = b by A = L L^T, A symmetric; False where it is not positive definite."""
    d = len(b)
    L, x = A.copy(), b.copy()
    for i in range(d):
        for j in range(i + 1):
            total = L[i, j]
            for k in range(j):
                total -= L[i, k] * L[j, k]
            if j < i:
                L[i, j] = total / L[j, j]
        if not total > 0.0:
            return x, False
        L[i, i] = math.sqrt(total)
        for k in range(i):
            x[i] -= L[i, k] * x[k]
        x[i] /= L[i, i]
    for i in range(d - 1, -1, -1):
        for k in range(i + 1, d):
            x[i] -= L[k, i] * x[k]
        x[i] /= L[i, i]
    return x, True


@kernel
def gauss_newton(
    seen: Array, covs: Array, focal: float, start: Array
) -> tuple[Array, Array, Array, Array, bool]:
    """T, H, weights, chi2 and whether it converged; damped where the robust cost rises.

    `seen` (8, n) are points in frame k, then in frame k+1, then both disparities; covariances of
    (u1, v1, d0, d1) are (4, 4, n).
    """
    weights, chi2 = np.empty(seen.shape[1]), np.empty(seen.shape[1])
    T = start.copy()
    H, g = normal_equations(_linearize(T, seen, covs, focal, weights, chi2))
    cost = cauchy_cost(chi2)
    damping, converged, rejected = 0.0, False, False
    for _ in range(MAX_ITERATIONS):
        damped = H.copy()
        for i in range(6):
            damped[i, i] = H[i, i] * (1.0 + damping) + 1e-12
        step, solved = solve_spd(damped, -g)
        if not solved:
            break
        # A damped step is small for other reasons.
        if damping < 1e-3 and (np.outer(step, step) * H).sum() < STEP_TOLERANCE**2:
            converged = True
            break
        T_new = se3_mul(se3_exp(step), T)
        H_new, g_new = normal_equations(_linearize(T_new, seen, covs, focal, weights, chi2))
        cost_new = cauchy_cost(chi2)
        rejected = cost_new > cost * (1.0 + COST_SLACK)
        if rejected:
            damping = 1e-4 if damping == 0.0 else damping * 10.0
        else:
            T, H, g, cost = T_new, H_new, g_new, cost_new
            damping = 0.0 if damping < 1e-6 else damping * 0.1
    if rejected:
        # Weights are still those of the pose that was rejected.
        _linearize(T, seen, covs, focal, weights, chi2)
    return T, H, weights, chi2, converged


Which = NDArray[np.intp] | NDArray[np.bool_]

INLIER_CHI2 = chi2_quantile(3, 0.999)
"""Squared Mahalanobis norm below which a match fits: 99.9 % of chi-square with 3 dof."""

ROBUST_FACTOR = 0.8066
"""Factor on H^-1 for Gaussian errors under the robust loss. It lowers every weight (mean 0.776), so
that H is too small by more than the loss costs in accuracy (4 %). With psi(u) = w(|u|^2) u of a
whitened residual in three dimensions it is E[w] E[w^2 |u|^2 / 3] / E[w + 2/3 w' |u|^2]^2."""


@dataclass(frozen=True)
class PinholePair:
    """The rectified stereo camera: all that geometry needs of it."""

    focal: float
    """[px] of both axes."""

    center: tuple[float, float]
    """cx, cy [px] of both images."""

    baseline: float
    """[m]; depth = focal * baseline / disparity."""

    @property
    def K(self) -> Array:
        """(3, 3) camera matrix of both images [px]."""
        (cx, cy), f = self.center, self.focal
        return np.array([[f, 0.0, cx], [0.0, f, cy], [0.0, 0.0, 1.0]])


@dataclass(frozen=True)
class Matches:
    """n points seen by both cameras in both frames."""

    uv0: Array
    """(n, 2) in the left image of frame k [px]."""

    uv1: Array
    """(n, 2) in the left image of frame k+1 [px]."""

    disparity0: Array
    """(n,) u_left - u_right in frame k [px], above 0."""

    disparity1: Array
    """(n,) the same in frame k+1."""

    def __len__(self) -> int:
        return len(self.uv0)

    def take(self, which: Which) -> "Matches":
        """Some of them, by index or mask."""
        return Matches(
            self.uv0[which], self.uv1[which], self.disparity0[which], self.disparity1[which]
        )


@dataclass(frozen=True)
class TwoFrame:
    """The pose that fits matches best, and the matches with their covariances."""

    T_ck_ck1: Array
    cov: Array
    """(6, 6) Eq. 6: H^-1 times `ROBUST_FACTOR`, left, [rho, phi]; for independent matches."""

    weights: Array
    """(n,) 0..1, what the robust loss left of each match."""

    chi2: Array
    """(n,) squared Mahalanobis norms of the residuals."""

    converged: bool

    matches: Matches
    covs: Array
    """(n, 4, 4) of (u1, v1, d0, d1) [px^2]."""

    camera: PinholePair

    @property
    def inliers(self) -> int:
        return int((self.chi2 < INLIER_CHI2).sum())


def points(uv: Array, disparity: Array, camera: PinholePair) -> Array:
    """(n, 3) in the left camera frame [m]."""
    z = camera.focal * camera.baseline / disparity
    center = np.array(camera.center)
    return np.column_stack([(uv - center) / camera.focal * z[:, None], z])


def two_frame_pose(
    matches: Matches, covs: Array, camera: PinholePair, T_ck_ck1: Array | None = None
) -> TwoFrame:
    """Minimise Eq. 5 over the pose; `covs` are (n, 4, 4) of (u1, v1, d0, d1) [px^2]."""
    places = matches.uv0, matches.disparity0, matches.uv1, matches.disparity1
    lens = camera.focal, camera.center, camera.baseline
    seen, covs_last = matches_last(np.column_stack(places), np.ascontiguousarray(covs), *lens)
    start = np.eye(4) if T_ck_ck1 is None else np.ascontiguousarray(T_ck_ck1)
    T, H, weights, chi2, converged = gauss_newton(seen, covs_last, camera.focal, start)
    # Products of many rotations drift off the group by rounding; one Newton step puts them back.
    R = T[:3, :3]
    T = se3(1.5 * R - 0.5 * R @ R.T @ R, T[:3, 3])
    cov = np.asarray(ROBUST_FACTOR * np.linalg.inv(H), np.float64)
    return TwoFrame(T, cov, weights, chi2, bool(converged), matches, covs, camera)


def residual_terms(
    T_ck_ck1: Array, matches: Matches, covs: Array, camera: PinholePair
) -> tuple[Array, Array, Array]:
    """Residuals p0 - T p1 of matches at any pose (n, 3), their covariances (n, 3, 3), and T p1."""
    R, t = T_ck_ck1[:3, :3], T_ck_ck1[:3, 3]
    p0 = points(matches.uv0, matches.disparity0, camera)
    p1 = points(matches.uv1, matches.disparity1, camera)
    moved = p1 @ R.T
    D = np.empty((len(matches), 3, 4))
    D[:, :, :2] = -R[:, :2] * (p1[:, 2] / camera.focal)[:, None, None]
    D[:, :, 2] = -p0 / matches.disparity0[:, None]
    D[:, :, 3] = moved / matches.disparity1[:, None]
    return p0 - moved - t, D @ covs @ np.swapaxes(D, 1, 2), moved + t


def residual_chi2(T_ck_ck1: Array, matches: Matches, covs: Array, camera: PinholePair) -> Array:
    """(n,) squared Mahalanobis norms of the residuals p0 - T p1 of matches at any pose."""
    r, cov_r, _ = residual_terms(T_ck_ck1, matches, covs, camera)
    whitened = np.linalg.solve(cov_r, r[:, :, None])[:, :, 0]
    return np.asarray((r * whitened).sum(axis=1), np.float64)
