"""How much of what the network corrects beyond a constant holds on recordings it has not seen.

Corrections learned on a handful of recordings are partly theirs alone. What the network adds to its
mean over the training recordings is scaled by a share between 0 (a constant) and 1, for gyroscope
and accelerometer apart. The share kept is the one that does best on the held-out recording it
serves worst: a correction that helps one recording and harms another is not the sensor's.
"""

from dataclasses import replace

import numpy as np
import torch

from maci2.evaluation.audited_integration import audited_windows
from maci2.imu import BETA, GAMMA, datasheet_model
from maci2.imu.learned_model import BLOCK, CONTEXT
from maci2.learn.imu.network import ImuNetwork
from maci2.learn.imu.training_windows import Track
from maci2.sensors import ImuSamples
from maci2.types import Array

SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)
HORIZON_S = 2.5
"""Over shorter times an audited truth follows the samples, corrected or not."""


def shrink_corrections(
    model: ImuNetwork, train: list[Track], tune: list[Track]
) -> tuple[float, float]:
    """Scale the correction head in place; the shares kept of gyroscope and accelerometer."""
    model.eval()
    mean = np.mean([correct(model, track.imu).mean(0) for track in train], axis=0)
    corrections = [correct(model, track.imu) for track in tune]
    errors = np.array([_errors(tune, corrections, mean, share) for share in SHARES])
    # Against the constant, in the recording where the share does worst.
    worst = (errors / errors[0]).max(1)
    gyro, acc = (SHARES[k] for k in worst.argmin(0))
    shares = np.repeat([gyro, acc], 3)
    last = model.correction_head[-1]
    assert isinstance(last, torch.nn.Linear)
    with torch.no_grad():
        kept = torch.tensor(shares, dtype=torch.float32)
        last.weight.mul_(kept[:, None])
        last.bias.mul_(kept)
        model.constant.add_((1.0 - kept) * (torch.tensor(mean).float() - model.constant))
    return gyro, acc


def correct(model: ImuNetwork, imu: ImuSamples) -> Array:
    """(n, 6) corrections of a whole recording, as at run time."""
    stream = np.concatenate([imu.gyro, imu.acc], axis=1)
    blocks = -(-len(stream) // BLOCK)
    seen = np.arange(-CONTEXT, (blocks - 1) * BLOCK + CONTEXT + 1)
    samples = torch.tensor(stream[np.clip(seen, 0, len(stream) - 1)], dtype=torch.float32)
    with torch.no_grad():
        correction = model(samples[None], *model.start_states(1))[0][0].numpy()
    return np.asarray(np.repeat(correction, BLOCK, axis=0)[: len(stream)], dtype=np.float64)


def _errors(tracks: list[Track], corrections: list[Array], mean: Array, share: float) -> Array:
    """(recordings, 2) rms rotation and velocity error."""
    found = []
    for track, correction in zip(tracks, corrections, strict=True):
        kept = mean + share * (correction - mean)
        raw = datasheet_model(track.imu, track.noise)
        measured = replace(raw, gyro=raw.gyro + kept[:, :3], acc=raw.acc + kept[:, 3:])
        e = audited_windows(track.audited, HORIZON_S).errors(measured).e
        found.append([np.sqrt((e[:, part] ** 2).sum(1).mean()) for part in (GAMMA, BETA)])
    return np.array(found)
