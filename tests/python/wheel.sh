#!/bin/sh
# Makes the wheel of a whole build, installs it in a fresh virtual environment, and uses command and library from there.
#   wheel.sh PACKAGE_FOLDER BUILD     exit status 77: skipped, with the reason
set -eu
package=$1 build=$2
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
. "$here/environment.sh"
command -v dpkg >/dev/null || skip "without dpkg the licences of bundled libraries are not known"
fail() { echo "$*" >&2; exit 1; }
unset ECMV_COMMAND ECMV_LIBRARY ECMV_PLUGIN_DIR ECMV_CODEC_PATH LD_LIBRARY_PATH PYTHONPATH 2>/dev/null || true

"$python" "$package/make_wheel.py" "$build" "$place/first"
"$python" "$package/make_wheel.py" "$build" "$place/second" >/dev/null
cmp "$place"/first/*.whl "$place"/second/*.whl || fail "Two wheels of one build differ."
# NumPy comes from outside, so that pip has nothing to look for.
"$inside" $pip install --no-index "$place"/first/*.whl

cd "$place"
PATH=$place/venv/bin:/usr/bin:/bin
export PATH
installed=$("$inside" -c 'import ecmv.places; print(ecmv.places.INSTALLED)')
for file in "$installed/bin/ecmv" "$installed"/lib/*.so*; do
  ! ldd "$file" | grep -e "not found" -e "$build" || fail "$file lacks libraries, or finds those of the build."
done
ldd "$installed/bin/ecmv" | grep -q "$installed/.*libgomp" || fail "The command takes a library from elsewhere."
ecmv list configs | grep -q smoke.yaml || fail "The command does not know its configs."
status=0
ecmv no-such-verb 2>refusal || status=$?
[ $status -eq 2 ] && grep -q "no verb" refusal || fail "The command's exit code or sentence is another one: $status."
ecmv verify smoke.yaml --filter "raw_int8.*scalar" >verified || fail "$(cat verified)"
grep -q "[1-9][0-9]* verified, 0 failed" verified || fail "ecmv verify verified nothing: $(cat verified)"
"$inside" -W error::DeprecationWarning - <<'PYTHON'
import os, sys
import ecmv
assert "pandas" not in sys.modules and "numpy" not in sys.modules, "What is not asked for is imported."
from ecmv import places
assert places.library().startswith(str(places.INSTALLED)) and places.command().startswith(str(places.INSTALLED))
import numpy as np
w = np.arange(-60, 60, dtype=np.int8).reshape(10, 12)
matrix = ecmv.encode(w, next(iter(ecmv.codecs())) if "raw_int8" not in ecmv.codecs() else "raw_int8")
assert (matrix.decode() == w).all() and (matrix @ np.ones(12, np.int8) == w.sum(axis=1)).all()
PYTHON
