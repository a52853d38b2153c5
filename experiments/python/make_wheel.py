#!/usr/bin/env python3
"""Makes a wheel with the package, the library, the command and the GPU plugins of a whole build (`make wheel`).

    make_wheel.py BUILD_FOLDER OUTPUT_FOLDER

pip builds the plain package; this program adds the installed tree of the build as ecmv/installed, with the shared
libraries that are no part of every system, and the licences of all of them. The same build gives the same bytes.
"""

import base64
import hashlib
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile

HERE = pathlib.Path(__file__).resolve().parent

# Part of every system with glibc and a C++ program. A second copy in one process would do harm.
OF_THE_SYSTEM = re.compile(r"^(ld-linux.*|lib(c|m|dl|rt|pthread|stdc\+\+|gcc_s|cuda|amdhip64|hsa-runtime64))\.so")
# Plugins of devices. MPI must be the machine's own, and the emulator is for those who write kernels.
PLUGINS = ("libecmv_cuda.so", "libecmv_hip.so")
# What is compiled in, without a shared library that would tell of it: packages, and pinned sources.
COMPILED_IN = ("nlohmann-json3-dev", "libcli11-dev", "librandom123-dev")
PINNED = "highway-*.tar.gz"
# The glibc of the oldest distribution with this libstdc++: pip compares glibc alone.
GLIBC_OF_LIBSTDCXX = {(3, 4, 30): (2, 35), (3, 4, 32): (2, 38), (3, 4, 33): (2, 40), (3, 4, 34): (2, 41)}


def stop(sentence):
    sys.exit(f"make_wheel.py: {sentence}")


def output_of(*command):
    ended = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        stop(f"{' '.join(map(str, command))} ended with {ended.returncode}:\n{ended.stdout}{ended.stderr}")
    return ended.stdout


def installed_files(build, folder):
    """The files of the installation that the package needs: place in the wheel -> file."""
    output_of("cmake", "--install", build, "--prefix", folder, "--strip")
    files = {}
    for file in sorted(folder.rglob("*")):
        place = file.relative_to(folder)
        wanted = (str(place) == "bin/ecmv" or place.parts[:2] == ("share", "ecmv") or file.name in PLUGINS
                  or re.fullmatch(r"libecmv\.so\.\d+", file.name))
        if wanted and not file.is_dir():
            files["/".join(place.parts)] = file
    return files


def bundled_libraries(programs):
    """The shared libraries that these programs need beyond every system's, and those that they need: name -> file."""
    found, left = {}, list(programs)
    while left:
        program = left.pop()
        places = dict(re.findall(r"^\s*(\S+) => (.*?)(?: \(0x[0-9a-f]+\))?$", output_of("ldd", program), re.M))
        for name in re.findall(r"^\s+NEEDED\s+(\S+)$", output_of("objdump", "-p", program), re.M):
            if OF_THE_SYSTEM.match(name) or name in found:
                continue
            if places.get(name, "not found") == "not found":
                stop(f"{program} needs {name}, which is not here.")
            found[name] = pathlib.Path(places[name]).resolve()
            left.append(found[name])
    return found


def licence_of(package):
    text = pathlib.Path("/usr/share/doc", package, "copyright")
    if not text.is_file():
        stop(f"The licence of the package {package} is not at {text}, and what it brings must not go without it.")
    return text.read_bytes()


def package_of(file):
    # Debian 12 knows files of /usr/lib as files of /lib.
    for known_as in (str(file), str(file).replace("/usr/", "/", 1)):
        ended = subprocess.run(["dpkg", "-S", known_as], capture_output=True, text=True, check=False)
        if ended.returncode == 0:
            return ended.stdout.split(":")[0]
    return stop(f"No package of this system owns {file}, so its licence is not known.")


def licences(libraries):
    """Licence texts of everything that is in the wheel and not ours: name -> text."""
    texts = {package: licence_of(package)
             for package in (*COMPILED_IN, *sorted({package_of(file) for file in libraries.values()}))}
    source = next((HERE / "../../third_party/cache").glob(PINNED), None) or stop(f"There is no {PINNED}.")
    with tarfile.open(source) as tar:
        for member in tar.getmembers():
            if re.fullmatch(r"[^/]+/LICENSE\S*", member.name):
                texts[member.name.replace("/", "-")] = tar.extractfile(member).read()
    return texts


def platform_tag(programs):
    """manylinux with the glibc that the programs ask for: elsewhere pip refuses, where a loader would fail later."""
    needed, machine = (2, 17), output_of("uname", "-m").strip()
    for program in programs:
        text = output_of("objdump", "-p", program)
        for name, version in re.findall(r"\b(GLIBC|GLIBCXX)_([0-9.]+)", text):
            numbers = tuple(map(int, version.split(".")))
            if name == "GLIBC":
                needed = max(needed, numbers[:2])
            for least, glibc in GLIBC_OF_LIBSTDCXX.items():
                if name == "GLIBCXX" and numbers >= least:
                    needed = max(needed, glibc)
    return f"manylinux_{needed[0]}_{needed[1]}_{machine}"


def plain_wheel(folder):
    """The wheel of the package alone, by pip: place -> bytes."""
    source = folder / "source"  # a build leaves files beside its sources
    output_of("cp", "-r", HERE, source)
    output_of(sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "wheel", "--no-deps",
              "--no-build-isolation", "--wheel-dir", folder, source)
    with zipfile.ZipFile(next(folder.glob("*.whl"))) as wheel:
        return {name: wheel.read(name) for name in wheel.namelist() if not name.endswith("/")}


def with_plugins_in_version(files, plugins):
    """The files with a version such as 0.1.0+cuda, so that wheels with and without plugins have names of their own."""
    info = next(place.split("/")[0] for place in files if place.endswith(".dist-info/WHEEL"))
    if not plugins:
        return files, info
    version = re.fullmatch(r"ecmv-(.+)\.dist-info", info)[1]
    longer = f"{version}+{'.'.join(plugins)}"
    info_then = f"ecmv-{longer}.dist-info"
    files = {place.replace(f"{info}/", f"{info_then}/", 1): content for place, content in files.items()}
    metadata = f"{info_then}/METADATA"
    files[metadata] = files[metadata].replace(f"\nVersion: {version}\n".encode(), f"\nVersion: {longer}\n".encode(), 1)
    return files, info_then


def write_wheel(path, files, programs):
    """A zip file with equal bytes for equal files."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        for place in sorted(files, key=lambda place: (".dist-info/" in place, place.endswith("/RECORD"), place)):
            info = zipfile.ZipInfo(place, (1980, 1, 1, 0, 0, 0))
            info.external_attr = (0o100755 if place in programs else 0o100644) << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            wheel.writestr(info, files[place])


def record_of(files, record):
    def line(place):
        digest = base64.urlsafe_b64encode(hashlib.sha256(files[place]).digest()).rstrip(b"=").decode()
        return f"{place},sha256={digest},{len(files[place])}\n"
    return ("".join(map(line, sorted(files))) + f"{record},,\n").encode()


def main(build, output):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        files = plain_wheel(folder)
        tree = installed_files(build, folder / "installed")
        binaries = [file for place, file in tree.items() if place == "bin/ecmv" or ".so" in file.name]
        libraries = bundled_libraries(binaries)
        for library, file in libraries.items():
            tree[f"lib/{library}"] = file
        tag = platform_tag([*binaries, *libraries.values()])
        plugins = [place.split("_")[-1][:-3] for place in tree if place.startswith("lib/ecmv/")]
        files, info = with_plugins_in_version(files, plugins)
        programs = {f"ecmv/installed/{place}" for place, file in tree.items() if file in binaries}
        files.update({f"ecmv/installed/{place}": file.read_bytes() for place, file in tree.items()})
        files[f"{info}/licenses/LICENSE"] = (HERE / "../../LICENSE").read_bytes()
        files.update({f"{info}/licenses/{name}": text for name, text in licences(libraries).items()})
        files[f"{info}/entry_points.txt"] = b"[console_scripts]\necmv = ecmv.command:main\n"
        files[f"{info}/WHEEL"] = (f"Wheel-Version: 1.0\nGenerator: ecmv\nRoot-Is-Purelib: false\nTag: py3-none-{tag}\n"
                                  .encode())
        del files[f"{info}/RECORD"]
        files[f"{info}/RECORD"] = record_of(files, f"{info}/RECORD")
    output.mkdir(parents=True, exist_ok=True)
    path = output / f"{info.replace('.dist-info', '')}-py3-none-{tag}.whl"
    write_wheel(path, files, programs)
    print(f"{path}: {path.stat().st_size / 1e6:.1f} MB, "
          f"{'GPUs by ' + ', '.join(plugins) if plugins else 'for CPUs alone, since the build has no plugin for GPUs'}")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
