"""Become a server that ends with its owner: ``launch.py OWNER_PID SIGNAL UID GID -- ARGV...``.

Run as a script by a bare interpreter (``python -I -S``), so it imports nothing but the standard library.
A ``preexec_fn`` would do the same inside a fork of a threaded process, where it may deadlock.
"""

import ctypes
import os
import sys

PR_SET_PDEATHSIG = 1


def become(uid: int, gid: int) -> None:
    """Give up root for good; a no-op for an ordinary user."""
    if os.getuid() == 0 and uid != 0:
        os.setgroups([])
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)


def end_with(owner_pid: int, signal_number: int) -> None:
    """Ask the kernel for a signal when the owner dies, and notice an owner that is dead already."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_PDEATHSIG, signal_number, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    if os.getppid() != owner_pid:
        raise SystemExit("the owner is gone")


def main(arguments: list[str]) -> None:
    """Drop privileges, bind the own life to the owner's, become the server."""
    owner_pid, signal_number, uid, gid = (int(value) for value in arguments[:4])
    # The order matters: a change of user wipes the death signal.
    become(uid, gid)
    end_with(owner_pid, signal_number)
    argv = arguments[5:]
    os.execv(argv[0], argv)


if __name__ == "__main__":
    main(sys.argv[1:])
