"""Where an export goes: nothing but a regular file is ever replaced."""

import os
import stat
import threading
from pathlib import Path

import pytest

from mainspring.engine.cli.destination import Destination


def export(name: Path | str, content: bytes = b"new\n") -> None:
    with Destination(str(name)) as destination:
        destination.write(content)


def _fail_halfway(destination: Destination) -> None:
    destination.write(b"half")
    raise ZeroDivisionError


def test_a_new_file_appears_only_when_it_is_complete(tmp_path: Path) -> None:
    with Destination(str(tmp_path / "jobs")) as destination:
        destination.write(b"a")
        assert not (tmp_path / "jobs").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["jobs"]


def test_an_export_that_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "jobs").write_bytes(b"old\n")
    with pytest.raises(ZeroDivisionError), Destination(str(tmp_path / "jobs")) as destination:
        _fail_halfway(destination)
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"old\n"]


def test_the_mode_of_a_file_that_is_replaced_stays(tmp_path: Path) -> None:
    (tmp_path / "jobs").touch(mode=0o600)
    export(tmp_path / "jobs")
    assert stat.S_IMODE((tmp_path / "jobs").stat().st_mode) == 0o600
    assert (tmp_path / "jobs").read_bytes() == b"new\n"


@pytest.mark.parametrize("there", [True, False], ids=["to a file", "to nothing yet"])
def test_a_link_stays_a_link(tmp_path: Path, there: bool) -> None:
    if there:
        (tmp_path / "real").touch()
    (tmp_path / "link").symlink_to("real")
    export(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"new\n"


def test_a_fifo_is_written_and_stays_a_fifo(tmp_path: Path) -> None:
    fifo, read = tmp_path / "fifo", []
    os.mkfifo(fifo)
    reader = threading.Thread(target=lambda: read.append(fifo.read_bytes()))
    reader.start()
    export(fifo)
    reader.join(20)
    assert read == [b"new\n"]
    assert fifo.is_fifo()


def test_a_device_is_written_and_its_error_names_it(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/dev/full")  # were it replaced, then not the machine's own
    with pytest.raises(OSError, match="No space left on device") as failure:
        export(tmp_path / "link")
    assert failure.value.filename == str(tmp_path / "link")
    assert Path("/dev/full").is_char_device()


def test_an_error_names_the_file_as_the_user_did(tmp_path: Path) -> None:
    for name in (str(tmp_path), str(tmp_path / "nowhere" / "jobs")):
        with pytest.raises(OSError, match=r"directory") as failure:
            export(name)
        assert failure.value.filename == name
