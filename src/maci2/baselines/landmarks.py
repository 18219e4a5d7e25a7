"""Points of tracks in the world of a bundle adjustment, and vision-only adjustment."""

import numpy as np

from maci2.baselines.bundle_adjustment import (
    Bundle,
    adjust,
    gauge_information,
    huber,
    reprojection_px,
)
from maci2.baselines.bundle_factors import Observations, observations
from maci2.baselines.bundle_state import SIZE, BundleState
from maci2.baselines.segment import Segment
from maci2.feature_tracks.track_adjustment import triangulate
from maci2.feature_tracks.tracks import FeatureTracks
from maci2.lie import se3_inv
from maci2.types import Array, Mask


def longest(tracks: FeatureTracks, count: int, views: int) -> Mask:
    """(p,) tracks with the most views, at least this many."""
    lengths = tracks.seen.sum(axis=1)
    chosen = np.zeros(len(lengths), dtype=bool)
    chosen[np.argsort(-lengths, kind="stable")[:count]] = True
    return chosen & (lengths >= views)


def with_points(
    segment: Segment, x: BundleState, chosen: Mask, stereo: bool
) -> tuple[Observations, BundleState]:
    """Triangulate tracks from the poses of `x`; points undetermined or behind a camera are
    dropped."""
    tracks, T_b_c = segment.tracks, segment.T_b_c
    R_w_c = x.Rs_w_b @ T_b_c[:3, :3]
    left_w = x.p_w_b + x.Rs_w_b @ T_b_c[:3, 3]
    rays, centers, seen = [tracks.bearings], [left_w], [tracks.seen]
    if stereo:
        rays.append(tracks.bearings_right)
        centers.append(left_w + tracks.baseline * R_w_c[:, :, 0])
        seen.append(tracks.seen_right)
    rays_w = [np.einsum("kij,pkj->pki", R_w_c, np.nan_to_num(ray[chosen])) for ray in rays]
    points_w, fine = triangulate(
        np.concatenate(rays_w, axis=1),
        np.concatenate(centers),
        np.concatenate([mask[chosen] for mask in seen], axis=1),
    )
    kept = chosen.copy()
    kept[chosen] = fine
    return observations(tracks, T_b_c, kept, stereo), x.with_points(points_w[fine])


def poses_as_state(segment: Segment, Ts_c0_b: Array) -> BundleState:
    """Body poses alone, in a world that is the first body, without gravity."""
    Ts = np.array([se3_inv(Ts_c0_b[0]) @ T for T in Ts_c0_b])
    nothing = np.zeros((len(Ts), 3))
    return BundleState(Ts[:, :3, :3], Ts[:, :3, 3], nothing, nothing, nothing, np.empty((0, 3)))


def visual_bundle(
    segment: Segment, x: BundleState, std_px: float, delta: float, stereo: bool, count: int
) -> BundleState:
    """Vision-only bundle adjustment with the first pose fixed, as in a map."""
    tracks = segment.tracks
    seen, start = with_points(segment, x, longest(tracks, count, 2 if stereo else 3), stereo)
    fixed = np.zeros((len(x.p_w_b), SIZE), dtype=bool)
    fixed[:, 6:] = True
    fixed[0] = True
    bundle = Bundle(
        seen,
        std_px / tracks.focal_px,
        huber(delta),
        None,
        segment.gravity_norm,
        np.ones(6),
        start,
        0.0 * gauge_information(),
        fixed=fixed,
    )
    return adjust(bundle, start, 20).state


def well_reprojected(bundle: Bundle, x: BundleState, focal_px: float, limit_px: float) -> Mask:
    """(p,) whether the root mean square reprojection error of a point is below a limit."""
    return reprojection_px(bundle, x, focal_px) < limit_px
