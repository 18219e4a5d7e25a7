"""ROS 1 and ROS 2 bags as streams of messages; `rosbags` parses them, and ROS is not needed.

A damaged bag can make a parser fail in any way; whatever it raises becomes one kind of error.
"""

from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from maci2.datasets.bag.bounded_files import BoundedPath
from maci2.errors import DatasetError, Maci2Error
from maci2.types import NS

_REPAIRS = {
    ".bag": "`rosbag reindex`",
    ".mcap": "`mcap recover`",
    ".db3": "`sqlite3 FILE .recover`",
}


class Message(NamedTuple):
    """One message of a bag."""

    topic: str
    received_ns: int
    content: Any


@dataclass(frozen=True)
class Topic:
    """One topic of a bag, with its message type and count."""

    name: str
    kind: str
    """Message type, such as sensor_msgs/msg/Imu, for ROS 1 too."""

    count: int

    def __str__(self) -> str:
        return f"{self.name} ({self.kind}, {self.count} messages)"


class Bag:
    """Open bag: one ROS 2 bag, or ROS 1 files that belong together. Close it after use."""

    def __init__(self, paths: tuple[Path, ...]) -> None:
        from rosbags.highlevel import AnyReader
        from rosbags.typesys import Stores, get_typestore

        self.paths = paths
        self.source = str(paths[0] if len(paths) == 1 else paths[0].parent)
        self._files = ExitStack()
        with self._reading():
            # ROS 2 bags before Jazzy do not carry definitions; these message types never changed.
            self._reader = AnyReader(
                [BoundedPath(path) for path in paths],
                default_typestore=get_typestore(Stores.ROS2_HUMBLE),
            )
            self._files.enter_context(self._reader)
            self.topics = {
                name: Topic(name, info.msgtype or "several types", info.msgcount)
                for name, info in self._reader.topics.items()
            }

    def messages(
        self, names: Collection[str], start_ns: int | None = None, stop_ns: int | None = None
    ) -> Iterator[Message]:
        """Messages of these topics in order of receive time, from start up to stop."""
        connections = [one for one in self._reader.connections if one.topic in names]
        if not connections:
            return
        stream = self._reader.messages(connections, start_ns, stop_ns)
        while True:
            with self._reading():
                found = next(stream, None)
                if found is None:
                    return
                connection, received_ns, data = found
                content = self._reader.deserialize(data, connection.msgtype)
            yield Message(connection.topic, received_ns, content)

    def close(self) -> None:
        """Release the files."""
        self._files.close()

    def __enter__(self) -> "Bag":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except Maci2Error:
            raise
        except Exception as error:
            said = (str(error) or type(error).__name__).rstrip(". ")
            raise DatasetError(
                f"{self.source}: cannot be read as a bag, it is damaged or cut short: {said}. Copy "
                f"it again{self._repair()}."
            ) from error

    def _repair(self) -> str:
        files = [file for path in self.paths for file in (path, *path.glob("*"))]
        tools = {_REPAIRS[file.suffix] for file in files if file.suffix in _REPAIRS}
        return f", or repair it with {' or '.join(sorted(tools))}" if tools else ""


def header_stamp_ns(content: Any) -> int:
    """Time of measurement as stated by the driver."""
    stamp = content.header.stamp
    return int(stamp.sec) * NS + int(stamp.nanosec)
