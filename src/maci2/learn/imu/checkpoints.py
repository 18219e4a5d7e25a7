"""Checkpoints of a training stage that may be moved to another folder or machine."""

from pathlib import Path
from typing import Any

from lightning.pytorch.callbacks import ModelCheckpoint


class MovableCheckpoint(ModelCheckpoint):
    """Keeps the best and the last epoch; remembers them by name, not by path.

    Lightning's own forgets which epoch was best when its folder is not where it was.
    """

    def state_dict(self) -> dict[str, Any]:
        """Names of files only."""
        state = super().state_dict()
        named = {Path(path).name: score for path, score in state["best_k_models"].items()}
        paths = ("best_model_path", "kth_best_model_path", "last_model_path")
        return {
            **state,
            **{key: Path(state[key]).name for key in paths},
            "best_k_models": named,
            "dirpath": "",
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Names of files are those of the present folder."""
        folder = Path(str(self.dirpath))

        def here(path: str) -> str:
            return str(folder / Path(path).name) if path else ""

        paths = ("best_model_path", "kth_best_model_path", "last_model_path")
        found = {here(path): score for path, score in state_dict["best_k_models"].items()}
        super().load_state_dict(
            {
                **state_dict,
                **{key: here(state_dict[key]) for key in paths},
                "best_k_models": found,
                "dirpath": self.dirpath,
            }
        )
