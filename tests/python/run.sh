#!/bin/sh
# Installs the Python package into a virtual environment, as a user would, and runs the claims beside this file.
#   run.sh PACKAGE_FOLDER ECMV LIBRARY SOURCE [TEST...]     exit status 77: skipped, with the reason
# Nothing is downloaded: NumPy, pandas, setuptools and wheel come from python3, or from the Python that PYTHON names.
set -eu
package=$1 ecmv=$2 library=$3 source=$4
shift 4
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
python=${PYTHON:-python3}
skip() { echo "skipped: $*"; exit 77; }

command -v "$python" >/dev/null || skip "there is no $python"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 9))' || skip "$python is older than 3.9"
for module in numpy pandas pip setuptools wheel venv; do
  "$python" -c "import $module" 2>/dev/null ||
    skip "$python has no module $module (third_party/install.sh python, or PYTHON names another Python)"
done
case " $* " in *torch*) "$python" -c "import torch" 2>/dev/null || skip "$python has no module torch" ;; esac
case " $* " in
  *transformers*) "$python" -c "import torch, transformers" 2>/dev/null ||
    skip "$python has not both modules torch and transformers" ;;
esac
"$python" -c 'import setuptools, sys; sys.exit(int(setuptools.__version__.split(".")[0]) < 61)' ||
  skip "the setuptools of $python is older than 61"

place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
trap 'exit 130' INT TERM
"$python" -m venv "$place/venv" >"$place/venv.log" 2>&1 ||
  skip "$python makes no virtual environment: $(tail -n 1 "$place/venv.log")"
inside=$place/venv/bin/python
# The environment also sees that Python's NumPy and pandas.
"$python" -c 'import os, numpy, pandas
print(*sorted({os.path.dirname(os.path.dirname(m.__file__)) for m in (numpy, pandas)}), sep="\n")' \
  >"$("$inside" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')/outside.pth"
pip="-m pip --quiet --disable-pip-version-check"
cp -r "$package" "$place/package"  # the build leaves files beside the sources
"$python" $pip wheel --no-deps --no-build-isolation --wheel-dir "$place/wheels" "$place/package"
"$inside" $pip install --no-index --no-deps "$place"/wheels/ecmv-*.whl

cd "$place"
case " $* " in *torch*|*transformers*) warnings=default ;; *) warnings=error ;; esac  # theirs are not ours
ECMV_COMMAND=$ecmv ECMV_LIBRARY=$library ECMV_TEST_SOURCE=$source MPLBACKEND=Agg PYTHONPATH=$here HF_HUB_OFFLINE=1 \
  "$inside" -B -W $warnings::DeprecationWarning -m unittest --buffer "${@:-claims}"
