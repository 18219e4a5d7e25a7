"""Both stages of training, as Lightning loops that stop and go on with the same result."""

import logging
import math
import signal
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import lightning
import numpy as np
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.core.optimizer import LightningOptimizer
from lightning.pytorch.loggers import CSVLogger
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from maci2_lab.training.imu.data import Batch, Windows
from maci2_lab.training.imu.likelihood import (
    ErrorModel,
    errors,
    huber,
    integrate_windows,
    negative_log_likelihood,
)
from maci2_lab.training.imu.network import Model
from maci2_lab.training.imu.recipes import Form


class MovableCheckpoint(ModelCheckpoint):
    """Keeps the best and the last epoch; remembers them by name, not by path.

    Lightning's own forgets which epoch was best when its folder is not where it was.
    """

    def state_dict(self) -> dict[str, Any]:
        """Names of files only."""
        return _in_folder(super().state_dict(), "")

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Names of files are those of the present folder."""
        super().load_state_dict(_in_folder(state_dict, str(self.dirpath)))


def _in_folder(state: dict[str, Any], folder: str) -> dict[str, Any]:
    """State of a checkpoint whose files are in a folder; their names alone where it is empty."""

    def path(old: str) -> str:
        return str(Path(folder) / Path(old).name) if old else ""

    best = {path(old): score for old, score in state["best_k_models"].items()}
    keys = ("best_model_path", "kth_best_model_path", "last_model_path")
    paths = {key: path(state[key]) for key in keys}
    return {**state, **paths, "best_k_models": best, "dirpath": folder}


log = logging.getLogger(__name__)

Stage = Literal["first", "held-out"]


@dataclass(frozen=True)
class TrainingConfig:
    """Length and speed of training."""

    epochs: int = 6
    """Number of epochs of the first stage."""

    held_out_epochs: int = 4
    """Number of epochs of the second stage."""

    steps_per_epoch: int = 50
    batch_size: int = 48
    learning_rate: float = 1e-3
    held_out_learning_rate: float = 1e-3
    weight_decay: float = 1e-4

    huber_weight: float = 1.0
    """Weight of the paper's correction loss beside the likelihood."""

    audited_noise_weight: float = 1.0
    """Weight of the squared difference from the noise that audits took the samples to have: where
    they trust them most, at rest and in the hand, the likelihood says nothing of it."""

    turn_on_jitter: float = 1.0
    """Random bias added to what the network reads, in turn-on spreads: it must not recognise a
    recording by its bias."""

    validation_share: float = 0.15
    """Last part of every recording, on which epochs are compared."""

    stride: int = 1
    """Audited states from one candidate start to the next."""

    seed: int = 0


def training_config(seed: int, epochs: int | None, held_out_epochs: int | None) -> TrainingConfig:
    """Defaults with the options of a user."""
    given = {"epochs": epochs, "held_out_epochs": held_out_epochs}
    chosen = {name: number for name, number in given.items() if number is not None}
    return TrainingConfig(seed=seed, **chosen)


class FixedBatches(Dataset[Batch]):
    """Every window once, in order: for validation."""

    def __init__(self, windows: Windows, batch_size: int) -> None:
        self.windows, self.batch_size = windows, batch_size

    def __len__(self) -> int:
        return math.ceil(len(self.windows) / self.batch_size)

    def __getitem__(self, k: int) -> Batch:
        first = k * self.batch_size
        return self.windows.batch(np.arange(first, min(first + self.batch_size, len(self.windows))))


class Trainee(lightning.LightningModule):
    """A model, the error model beside it, and the losses of one stage."""

    def __init__(
        self,
        model: Model,
        error_model: ErrorModel,
        config: TrainingConfig,
        stage: Stage,
        windows: Windows,
        validation: Windows,
    ) -> None:
        super().__init__()
        self.model, self.error_model = model, error_model
        self.config, self.stage = config, stage
        self.windows, self.validation = windows, validation
        if stage == "held-out":
            # No gradient for what is frozen: half of the work is not needed.
            model.requires_grad_(False)
            for parameter in model.uncertainty_parameters():
                parameter.requires_grad_()

    @property
    def form(self) -> Form:
        """Form of the model."""
        return self.model.form

    def train_dataloader(self) -> DataLoader[int]:
        """Loader of as many steps as an epoch has."""
        steps: Any = range(self.config.steps_per_epoch)  # the batches are drawn by training_step
        return DataLoader(steps, batch_size=None, shuffle=False)

    def val_dataloader(self) -> DataLoader[Batch]:
        """The time split."""
        return DataLoader(FixedBatches(self.validation, self.config.batch_size), batch_size=None)

    def on_train_epoch_start(self) -> None:
        """The step size falls to zero along half a cosine."""
        share = 0.5 * (1.0 + math.cos(math.pi * self.current_epoch / self.epochs))
        optimizer = self.optimizers()
        assert isinstance(optimizer, LightningOptimizer)
        for group in optimizer.param_groups:
            group["lr"] = share * group["first_lr"]
        if self.stage == "held-out":
            # Batch statistics and dropout would move the frozen encoder.
            self.model.eval()

    def training_step(self, _: int, __: int) -> Tensor:
        """Huber and likelihood on one batch.

        Windows, dropout and jitter depend on the seed and the number of the step alone: a run
        that was stopped, between epochs or within one, goes on as if it had not been.
        """
        seed = [self.config.seed, self.global_step]
        batch = self.windows.draw(self.config.batch_size, np.random.default_rng(seed))
        torch.manual_seed(int(np.random.default_rng([*seed, 1]).integers(1 << 31)))
        loss, parts = self._loss(batch, jitter=self.stage == "first")
        named = {f"train_{name}": value for name, value in parts.items()}
        self.log_dict(named, on_epoch=True, batch_size=self.config.batch_size)
        return loss

    def validation_step(self, batch: Batch, _: int) -> None:
        """Losses on the time split."""
        parts = self._loss(batch, jitter=False)[1]
        size = int(batch.valid.sum())
        self.log_dict({f"val_{name}": v for name, v in parts.items()}, batch_size=size)

    def _loss(self, batch: Batch, jitter: bool) -> tuple[Tensor, dict[str, Tensor]]:
        found, log_variance = integrate_windows(
            self.model, batch, self._jitter(batch) if jitter else None
        )
        e = errors(found, batch)
        cov = self.error_model(found, batch)
        likelihood = negative_log_likelihood(e, cov, batch.valid, self.form)
        correction = huber(e, batch.valid)
        loss = likelihood + self.config.huber_weight * correction
        if self.form.axes_alike:
            unlike = (log_variance - batch.log_variance).square().mean()
            loss = loss + self.config.audited_noise_weight * unlike
        return loss, {"nll": likelihood.detach(), "huber": correction.detach()}

    def _jitter(self, batch: Batch) -> Tensor:
        spread = self.error_model.bias_std.float() * self.config.turn_on_jitter
        return torch.randn(len(batch.samples), 1, 6) * spread

    @property
    def epochs(self) -> int:
        """Number of epochs of this stage."""
        config = self.config
        return config.epochs if self.stage == "first" else config.held_out_epochs

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Adam; the second stage moves uncertainties only."""
        if self.stage == "held-out":
            chosen = self.model.uncertainty_parameters()
            rate = self.config.held_out_learning_rate
        else:
            chosen = _trainable(self.model)
            rate = self.config.learning_rate
        # Parameters in neither group keep their values: the optimizer does not know them.
        # Constants and logarithms of scales are few and far from zero: faster, and no decay.
        scales = [p for p in chosen if p.dim() == 1 and len(p) <= 6]
        weights = [p for p in chosen if not any(p is scale for scale in scales)]
        groups = [
            {"params": weights, "first_lr": rate, "weight_decay": self.config.weight_decay},
            {
                "params": [*scales, *self.error_model.parameters_learned()],
                "first_lr": 10 * rate,
            },
        ]
        return torch.optim.Adam([group for group in groups if group["params"]])


def _trainable(model: Model) -> list[torch.nn.Parameter]:
    uncertain = {id(p) for p in model.uncertainty_parameters()}
    datasheet = model.form.uncertainty in ("datasheet", "scaled datasheet")
    return [
        p
        for name, p in model.named_parameters()
        if not (datasheet and (name == "log_factor" or id(p) in uncertain))
    ]


def run_stage(trainee: Trainee, folder: Path, progress: bool = True) -> None:
    """Train, or go on from the folder's last checkpoint, then take the best epoch's weights."""
    folder.mkdir(parents=True, exist_ok=True)
    config = trainee.config
    checkpoint = MovableCheckpoint(
        folder, filename="best", monitor="val_nll", save_last=True, enable_version_counter=False
    )
    trainer = lightning.Trainer(
        max_epochs=trainee.epochs,
        accelerator="auto",
        # A run that goes on writes another version: the log of what came before stays.
        logger=CSVLogger(str(folder), name="log"),
        callbacks=[checkpoint],
        num_sanity_val_steps=0,
        enable_progress_bar=progress,
        enable_model_summary=False,
        gradient_clip_val=1.0,
        log_every_n_steps=config.steps_per_epoch,
    )
    last = folder / "last.ckpt"
    with warnings.catch_warnings():
        # Lightning's own: deprecated calls into torch, hints about workers for the loader.
        warnings.filterwarnings("ignore", module="lightning.*")
        _fit(trainer, trainee, last if last.exists() else None)
    best = torch.load(checkpoint.best_model_path, weights_only=False)
    trainee.load_state_dict(best["state_dict"])
    trainee.eval()
    log.info(
        "%s stage: best epoch %d, val_nll %.3f",
        trainee.stage,
        best["epoch"],
        float(checkpoint.best_model_score or math.nan),
    )


def _fit(trainer: lightning.Trainer, trainee: Trainee, last: Path | None) -> None:
    """Train, from the last checkpoint if there is one; an interrupt ends it as one."""
    handler = signal.getsignal(signal.SIGINT)
    try:
        trainer.fit(trainee, ckpt_path=str(last) if last else None, weights_only=False)
    except SystemExit:
        # Lightning makes an exit with code 1 of Ctrl-C and has the process ignore further ones.
        signal.signal(signal.SIGINT, handler)
        raise KeyboardInterrupt from None
