"""Make all files of a release, check them, and write their checksums.

    make release     (build/release)

Wheel and sdist pass `twine check`, and the wheel runs in a clean environment. The folder also has
the catalogue with its schema, the bill of materials and SHA256SUMS. Images are built if buildah or
podman is installed and has their base image; BASE=IMAGE names another one. Nothing is published.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from featurelib import __version__
from scripts import write_catalogue, write_sbom

ROOT = Path(__file__).parents[1]
UV = Path(sys.prefix, "bin", "uv")
# twine is installed on demand, so no lock has it.
TWINE_CHECK = (UV, "tool", "run", "--quiet", "twine==7.0.0", "check", "--strict")
SUMS = "SHA256SUMS"
BUILDERS = ("buildah", "podman")


def run(*words: str | Path, folder: Path = ROOT) -> str:
    """Run a command; return its output. Raises SystemExit with the output if the command fails."""
    done = subprocess.run(
        [str(word) for word in words], cwd=folder, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, words))}\n{done.stdout}{done.stderr}")
    return done.stdout


def packages(out: Path) -> tuple[Path, Path]:
    """Build and check the wheel and the sdist in `out`; return their paths."""
    run(UV, "build", "--quiet", "--out-dir", out, ROOT)
    (wheel,), (sdist,) = out.glob("*.whl"), out.glob("*.tar.gz")
    run(*TWINE_CHECK, wheel, sdist)
    return wheel, sdist


def answer_of(package: Path) -> str:
    """Install a package in a clean environment; return its `featurelib --version`."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)  # outside the checkout, because uv would read the checkout's settings
        run(UV, "venv", "--quiet", "--python", sys.executable, "venv", folder=home)
        python, command = home / "venv" / "bin" / "python", home / "venv" / "bin" / "featurelib"
        run(UV, "pip", "install", "--quiet", "--python", python, package, folder=home)
        return run(command, "--version", folder=home).strip()


def images() -> list[str]:
    """Build the container images; return a line about each image."""
    builder = next((name for name in BUILDERS if shutil.which(name)), None)
    lines = []
    for file in sorted((ROOT / "deploy" / "images").glob("*.Containerfile")):
        tag = f"featurelib-{file.stem}:{__version__}"
        found = re.search(r"^ARG BASE=(\S+)", file.read_text(encoding="utf-8"), re.MULTILINE)
        default, own = found[1] if found else "", os.environ.get("BASE")
        if builder is None:
            lines.append(f"{tag}: not built, neither {' nor '.join(BUILDERS)} is installed")
        elif not own and subprocess.run([builder, "pull", default], capture_output=True).returncode:
            advice = f"Name another one than {default}: BASE=IMAGE make release"
            lines.append(f"{tag}: not built, {builder} cannot pull the base image. {advice}")
        else:
            words = ("--build-arg", f"BASE={own or default}", "--file", file, "--tag", tag)
            run(builder, "build", *words, ROOT)
            lines.append(f"{tag}: built by {builder} on {own or default}")
    return lines


def write_sums(out: Path) -> Path:
    """Write the SHA-256 of every file in `out` to a file for `sha256sum --check`."""
    files = sorted(path for path in out.iterdir() if path.is_file() and path.name != SUMS)
    sums = (f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files)
    (out / SUMS).write_text("".join(sums), encoding="utf-8")
    return out / SUMS


def main() -> None:
    """Build the release in build/release. An earlier one is deleted."""
    out = ROOT / "build" / "release"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    for package in packages(out):
        print(f"{package.name}: twine check passed; installed: {answer_of(package)}")
    (out / ".gitignore").unlink(missing_ok=True)  # uv's
    write_catalogue.write(out)
    write_sbom.write(out / "sbom.json")
    for line in images():
        print(line)
    print(write_sums(out).read_text(encoding="utf-8"), end="")
    print(f"\n{out}")


if __name__ == "__main__":
    main()
