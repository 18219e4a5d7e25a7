"""Weight files and their cards: what a model was trained on, stored in the file as JSON."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from maci2.errors import OptionError
from maci2.files import parse_json


class Card(BaseModel):
    """Everything a user should know about a weight file before using it."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


SomeCard = TypeVar("SomeCard", bound=Card)


@dataclass(frozen=True)
class CardKind(Generic[SomeCard]):
    """Kind of weight file."""

    card: type[SomeCard]
    otherwise: str
    """Description of a file without such a card, for error messages."""

    key: str
    """Key of the card in the file's metadata."""

    format: int
    """Version of the card that this version of maci2 reads."""

    command: str
    """Command that writes such files."""

    def read(self, metadata: Mapping[str, str], source: str) -> SomeCard:
        """The card of a weight file; raises an error that says what is wrong with it."""
        if self.key not in metadata:
            raise OptionError(
                f"{source}: an ONNX file, but {self.otherwise} of maci2 (no '{self.key}' in its "
                f"metadata); give a file that `{self.command}` wrote."
            )
        stored = parse_json(metadata[self.key], f"{source}, model card", "the card", OptionError)
        if stored.get("format") != self.format:
            raise OptionError(
                f"{source}: weight format {stored.get('format')}, this version of maci2 reads "
                f"format {self.format}; train again with `{self.command}` or install the version "
                f"that wrote it ({stored.get('package_version', 'unknown')})."
            )
        try:
            return self.card.model_validate(stored)
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(str(part) for part in first["loc"])
            raise OptionError(
                f"{source}: the model card is damaged at '{place}' ({first['msg']}); copy the file "
                f"again, or train again with `{self.command}`."
            ) from error


def first_line(error: Exception) -> str:
    """First line of an error's text, or its type."""
    return str(error).strip().partition("\n")[0][:200] or type(error).__name__


def open_weights(
    content: bytes, source: str, command: str, digest: str = ""
) -> tuple[Any, dict[str, str]]:
    """Session of onnxruntime, on one thread, and metadata of a weight file that `command` wrote;
    `digest` is its SHA-256 if that is known."""
    found = hashlib.sha256(content).hexdigest()
    if digest and found != digest:
        raise OptionError(
            f"{source}: SHA-256 of the weights is {found}, needed {digest}; the file was changed "
            "or cut short. Install the package again, or train the model again."
        )
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    try:
        session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        return session, dict(session.get_modelmeta().custom_metadata_map)
    except Exception as error:  # onnxruntime has no common base class for its errors
        raise OptionError(
            f"{source}: not an ONNX file that can be read ({first_line(error)}); copy it again, "
            f"or train it again with `{command}`."
        ) from error
