"""Says what is wrong with a wheel: its tag, its files, and what its native module needs."""

import re
import subprocess
import sys
import zipfile
from pathlib import Path
from tempfile import TemporaryDirectory

SYSTEM = re.compile(r"(libc|libm|libdl|libpthread|librt|libgcc_s|ld-linux.*)\.so\.\d+")
PACKAGE = Path(__file__).parents[2] / "python" / "echomq"


def tracked(folder):
    """The files of a folder that belong to the repository: what lies there besides is not published."""
    listing = subprocess.run(["git", "ls-files"], cwd=folder, check=True, capture_output=True, text=True).stdout
    return listing.splitlines()


def main(path):
    version, python, abi, platform = path.stem.split("-")[1:]
    assert (python, abi) == ("cp311", "abi3"), path.name
    assert platform.startswith(("manylinux_", "musllinux_")), path.name
    with zipfile.ZipFile(path) as wheel, TemporaryDirectory() as folder:
        names = set(wheel.namelist())
        found = {name.removeprefix("echomq/") for name in names if name.startswith("echomq/")}
        expected = {*tracked(PACKAGE), "_echomq.abi3.so"}
        assert found == expected, found ^ expected
        metadata = wheel.read(f"echomq-{version}.dist-info/METADATA").decode()
        assert "\nRequires-Python: >=3.11\n" in metadata, metadata
        assert "\nRequires-Dist:" not in metadata, metadata
        module = wheel.extract("echomq/_echomq.abi3.so", folder)
        listing = subprocess.run(["objdump", "-ph", module], check=True, capture_output=True, text=True).stdout
    needed = re.findall(r"^\s*NEEDED\s+(\S+)$", listing, re.MULTILINE)
    assert needed, listing
    assert ".debug_info" not in listing, "the native module is not stripped"
    assert all(SYSTEM.fullmatch(name) for name in needed), needed
    print(f"{path.name}: needs {', '.join(needed)}")


main(Path(sys.argv[1]))
