"""Compile the Cython modules. Everything else about the package stands in pyproject.toml.

The packages live at the top level of the checkout but are called ``mainspring.*``. Cython finds a
``.pxd`` by its package, so a tree of links under ``build/ns`` shows it the layout that is installed.
"""

import os
from pathlib import Path

import numpy as np
from Cython.Build import cythonize
from setuptools import Extension, setup

ROOT = Path(__file__).resolve().parent
PACKAGES = ("wheel", "changelog_tailer", "engine", "loadtest")
NAMESPACE = ROOT / "build" / "ns"

# `make sanitize` sets it. Python's own flags let signed integers wrap, which would hide an overflow.
SANITIZE = os.environ.get("MAINSPRING_SANITIZE") == "1"
# Symbols for a debugger would cost a newcomer several seconds of compiling.
OPTIMIZED = ["-O2", "-g0", "-fno-strict-aliasing"]
SANITIZED = ["-O1", "-g1", "-fno-omit-frame-pointer", "-fsanitize=address,undefined", "-fno-wrapv"]
SANITIZED += ["-fno-sanitize-recover=all", "-fno-strict-aliasing", "-DMAINSPRING_SANITIZE"]


def link_namespace() -> None:
    """Make ``build/ns/mainspring/<package>`` point at each package folder; safe to repeat and to race."""
    package_root = NAMESPACE / "mainspring"
    package_root.mkdir(parents=True, exist_ok=True)
    for name in PACKAGES:
        link, target = package_root / name, ROOT / name
        if link.is_symlink() and link.readlink() == target:
            continue
        link.unlink(missing_ok=True)
        link.symlink_to(target, target_is_directory=True)


def extensions() -> list[Extension]:
    """One extension a ``.pyx``, named by its place; the largest first, so that no core waits for another."""
    compiled = ("wheel",) if SANITIZE else PACKAGES
    sources = [source for name in compiled for source in (ROOT / name).rglob("*.pyx")]
    return [
        Extension(
            ".".join(("mainspring", *source.relative_to(ROOT).with_suffix("").parts)),
            [str(source.relative_to(ROOT))],
            include_dirs=[np.get_include(), str(ROOT / "wheel")],
            define_macros=[("NPY_NO_DEPRECATED_API", "NPY_1_7_API_VERSION")],
            extra_compile_args=SANITIZED if SANITIZE else OPTIMIZED,
            extra_link_args=["-fsanitize=address,undefined"] if SANITIZE else [],
            depends=[str(path) for path in sorted((ROOT / "wheel").glob("*.h"))],
        )
        for source in sorted(sources, key=lambda source: (-source.stat().st_size, source))
    ]


link_namespace()
CORES = len(os.sched_getaffinity(0))
setup(
    options={"build_ext": {"parallel": CORES}},
    ext_modules=cythonize(
        extensions(),
        nthreads=CORES,
        include_path=[str(NAMESPACE)],
        build_dir="build/cython",
        language_level=3,
        compiler_directives={
            "boundscheck": False,
            "wraparound": False,
            "cdivision": True,
            "initializedcheck": False,
            "embedsignature": True,
        },
    ),
)
