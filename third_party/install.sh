#!/bin/sh
# Installs what is missing on Debian 12 or newer and Ubuntu 22.04 or newer, and touches nothing that is there:
#   third_party/install.sh         compiler, build tools, libraries, Catch2 3, the Highway source
#   third_party/install.sh neon    the same, and what compiles and runs the kernel tests for 64-bit ARM
#   third_party/install.sh lint    the same, and clang-format
#   third_party/install.sh fuzz    the same, and clang with libFuzzer and OpenMP
#   third_party/install.sh cluster the same, and Slurm and Open MPI for the tests that start them
#   third_party/install.sh python  the same, and NumPy, pandas and what installs a Python package, for its tests
# With everything there it needs neither root nor network and ends within a second. Packages come from apt by name;
# Debian 12's Catch2 from bookworm-backports; pinned sources (pins.txt) as Debian source packages or from upstream.
# Suites that the machine does not list are read through a private apt folder: /etc/apt is never written.
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
cache=$here/cache

tools="g++=g++ cmake=cmake ninja=ninja-build make=make git=git gnuplot=gnuplot-nox"
libraries="libbenchmark-dev libyaml-cpp-dev libcli11-dev nlohmann-json3-dev libfmt-dev libzstd-dev zlib1g-dev
  libbz2-dev librandom123-dev libboost-context-dev ca-certificates"
lint_tools="clang-format=clang-format"
fuzz_tools="clang++=clang"
fuzz_libraries="libclang-rt-dev libomp-dev"
python_packages="python3-venv python3-pip python3-setuptools python3-wheel python3-numpy python3-pandas"
cluster_packages="slurmctld slurmd slurm-client munge openmpi-bin libopenmpi-dev"
neon_tools="aarch64-linux-gnu-g++=g++-aarch64-linux-gnu qemu-aarch64=qemu-user"

scratch=
trap '[ -z "$scratch" ] || rm -rf "$scratch"' EXIT
trap 'exit 130' INT TERM

say() { echo "set-up: $*"; }
stop() { echo "set-up: $*" >&2; exit 1; }

# --- what is missing ---------------------------------------------------------------------------------------------

# Prints the packages of "command=package" pairs whose command is missing.
missing_tools() {
  for pair in "$@"; do
    command -v "${pair%%=*}" >/dev/null 2>&1 || echo "${pair#*=}"
  done
}

# Prints those of the packages that dpkg does not know as installed.
missing_packages() {
  installed=" $(dpkg-query -W -f '${db:Status-Status}:${Package} ' "$@" 2>/dev/null || true)"
  for package in "$@"; do
    case $installed in *" installed:$package "*) ;; *) echo "$package" ;; esac
  done
}

is_version_3() { [ -n "$1" ] && [ "$1" != "(none)" ] && dpkg --compare-versions "$1" ge 3; }
has_catch2_package() { is_version_3 "$(dpkg-query -W -f '${Version}' catch2 2>/dev/null || true)"; }

# Reads NAME's line of pins.txt into version, sha256, address and tarball.
read_pin() {
  read -r _ version sha256 address <<PIN
$(grep "^$1 " "$here/pins.txt")
PIN
  tarball=$cache/$1-$version.tar.gz
}

has_pinned() {
  read_pin "$1"
  [ -f "$tarball" ] && echo "$sha256  $tarball" | sha256sum --check --status
}

# --- apt ---------------------------------------------------------------------------------------------------------

as_root=
find_root() {
  [ "$(id -u)" -ne 0 ] || return 0
  if command -v sudo >/dev/null 2>&1 && { sudo -n true 2>/dev/null || [ -t 0 ]; }; then
    as_root=sudo
    return 0
  fi
  return 1
}

apt_install() {
  $as_root env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 "$@" \
    install -y --no-install-recommends $wanted
}

codename() { (. /etc/os-release && echo "${VERSION_CODENAME:-}"); }

# write_source FOLDER TYPE SUITE: writes one apt source like the machine's first one for its release, but of TYPE (deb,
# deb-src) and SUITE. The machine's own one tells the mirror and the keyring, so no host is named here. Fails when there
# is none.
write_source() {
  own="$(codename)|stable|testing|unstable|sid"
  for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
    [ -f "$file" ] || continue
    awk -v own="^($own)\$" -v type="$2" -v suite="$3" '
      $1 == "deb" {
        options = ""
        if (match($0, /\[[^]]*\]/)) {
          options = substr($0, RSTART, RLENGTH) " "
          $0 = substr($0, 1, RSTART - 1) substr($0, RSTART + RLENGTH)
        }
        if ($3 ~ own) { print type " " options $2 " " suite " main"; exit }
      }' "$file" >"$1/extra.list"
    [ ! -s "$1/extra.list" ] || return 0
  done
  rm -f "$1/extra.list"
  for file in /etc/apt/sources.list.d/*.sources; do
    [ -f "$file" ] || continue
    awk -v own="^($own)\$" -v type="$2" -v suite="$3" '
      BEGIN { RS = ""; FS = "\n" }
      /(^|\n)Enabled: *no/ { next }
      {
        found = 0
        for (i = 1; i <= NF; ++i)
          if ($i ~ /^Suites:/)
            for (n = split($i, suites, /[ \t]+/); n > 1; --n)
              if (suites[n] ~ own) found = 1
        if (!found) next
        for (i = 1; i <= NF; ++i) {
          if ($i ~ /^Types:/) $i = "Types: " type
          if ($i ~ /^Suites:/) $i = "Suites: " suite
          if ($i ~ /^Components:/) $i = "Components: main"
          print $i
        }
        exit
      }' "$file" >"$1/extra.sources"
    [ ! -s "$1/extra.sources" ] || return 0
  done
  return 1
}

# open_suite TYPE SUITE: sets private to the options that make apt see only this suite of the machine's own mirror.
open_suite() {
  [ -n "$scratch" ] || scratch=$(mktemp -d)
  folder=$scratch/$1_$2
  if [ ! -d "$folder" ]; then
    mkdir -p "$folder/lists" "$folder/none"
    write_source "$folder" "$1" "$2" || return 1
  fi
  for list in "$folder"/extra.*; do :; done
  private="-o Dir::Etc::SourceList=$list -o Dir::Etc::SourceParts=$folder/none -o Dir::State::Lists=$folder/lists
    -o Dir::Cache::PkgCache= -o Dir::Cache::SrcPkgCache= -o APT::Update::Error-Mode=any -o APT::Sandbox::User=$(id -un)"
  [ ! -f "$folder/failed" ] || return 1
  [ -f "$folder/updated" ] || apt-get -q $private update || { : >"$folder/failed"; return 1; }
  : >"$folder/updated"
}

# --- Catch2 and the pinned sources -------------------------------------------------------------------------------

install_catch2() {
  candidate=$(apt-cache policy catch2 2>/dev/null | awk '$1 == "Candidate:" { print $2 }')
  wanted=catch2
  if is_version_3 "$candidate"; then
    apt_install || return 1
  elif [ "$(codename)" = bookworm ]; then
    say "Catch2 3 comes from bookworm-backports"
    open_suite deb bookworm-backports || return 1
    apt_install $private || return 1
  fi
  has_catch2_package
}

fetch_from_debian() {
  command -v apt-get >/dev/null 2>&1 && [ "$(. /etc/os-release && echo "${ID:-}")" = debian ] || return 1
  open_suite deb-src trixie || return 1
  (cd "$scratch" && apt-get -q $private source --download-only "$1") || return 1
  fetched=$scratch/$1_$version.orig.tar.gz
  [ -f "$fetched" ] && echo "$sha256  $fetched" | sha256sum --check --status || return 1
  cp "$fetched" "$tarball.$$" && mv "$tarball.$$" "$tarball"
}

fetch_pinned() {
  ! has_pinned "$1" || return 0
  say "fetching the source of $1 $version"
  mkdir -p "$cache" || stop "The folder $cache cannot be written."
  if fetch_from_debian "$1"; then return 0; fi
  say "not to be had as Debian's source package; trying $address"
  cmake -DNAME="$1" -P "$here/pinned.cmake" >/dev/null 2>&1 && has_pinned "$1" ||
    stop "The source of $1 $version could be fetched neither as Debian's source package nor from upstream." \
      "Is there a network? Without one, put $address as third_party/cache/$1-$version.tar.gz (SHA-256 $sha256)."
}

# --- the order of things -----------------------------------------------------------------------------------------

case ${1:-base} in
  base) ;;
  neon) tools="$tools $neon_tools" ;;
  lint) tools="$tools $lint_tools" ;;
  fuzz) tools="$tools $fuzz_tools" libraries="$libraries $fuzz_libraries" ;;
  cluster) libraries="$libraries $cluster_packages" ;;
  python) libraries="$libraries $python_packages" ;;
  *) stop "'$1' is not a part of the set-up; the parts are: base, neon, lint, fuzz, cluster, python." ;;
esac

command -v dpkg-query >/dev/null 2>&1 ||
  stop "This script knows only Debian and Ubuntu. Install by hand what third_party/README.md lists," \
    "then build with 'make SETUP=true'."

wanted=$(echo $(missing_tools $tools) $(missing_packages $libraries))
need_catch2=
has_catch2_package || has_pinned catch2 || need_catch2=catch2

if [ -n "$wanted" ]; then
  say "missing packages: $wanted"
  find_root || stop "Installing them needs root, and neither root nor sudo is to be had here." \
    "Please ask the administrator to run: apt-get install $wanted"
  $as_root apt-get -q -o DPkg::Lock::Timeout=300 update ||
    say "apt could not refresh every package list; going on with what it has"
  apt_install || stop "apt could not install all of: $wanted (its reason is above)." \
    "Check the network and, on Ubuntu, that the component 'universe' is switched on; then run this again."
fi
if [ -n "$need_catch2" ] && ! { find_root && install_catch2; }; then
  fetch_pinned catch2   # built with the tests instead
fi
fetch_pinned highway
[ "${1:-base}" != neon ] || fetch_pinned catch2
say "everything is there"
