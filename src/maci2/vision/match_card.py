"""What the weights of the match covariance say of themselves."""

from collections.abc import Mapping

from maci2.model_card import Card, CardKind

METADATA_KEY = "maci2_match_covariance"
FORMAT = 1
"""Version of the weight files; raised when inputs, outputs or the card change."""

AXES = ("u1", "v1", "d0", "d1")


class MatchCard(Card):
    """Of the covariance of stereo matches."""

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
    """Of the other held-out matches per axis, before the calibration stage."""

    pose_nees: float
    """Per degree of freedom of the held-out steps' poses, before the calibration stage."""

    limits: list[str]

    def text(self) -> str:
        """The card in plain words."""
        axes = ", ".join(
            f"{axis} {value:.2f}" for axis, value in zip(AXES, self.axis_nees, strict=True)
        )
        lines = [
            f"covariance of stereo matches, written by maci2 {self.package_version}",
            f"trained on      {self.matches} matches in {self.scenes} drawn rooms, no real image",
            f"calibrated on   {self.held_out_scenes} rooms not trained on",
            f"seed            {self.seed}, {self.epochs} epochs",
            f"held-out NEES   before calibration, which makes them 1: {axes}; then poses "
            f"{self.pose_nees:.2f}",
            f"outliers        {100 * self.outliers:.1f} % of held-out matches",
        ]
        return "\n".join(lines + [f"limit           {limit}" for limit in self.limits])


KIND = CardKind(MatchCard, "no match covariance", METADATA_KEY, FORMAT, "maci2 train-vision")


def read_match_card(metadata: Mapping[str, str], source: str) -> MatchCard:
    """The card of a weight file, or an error that says what is wrong with it."""
    return KIND.read(metadata, source)
