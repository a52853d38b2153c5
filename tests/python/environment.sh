# For scripts beside this file: . environment.sh makes a virtual environment in a new folder, $place, which goes when
# the script ends. `inside` is its Python, `pip` the words that call pip quietly. Where none can be made, the script
# ends with 77: skipped, with the reason. Nothing is downloaded: NumPy, pandas, setuptools and wheel come from python3,
# or from the Python that PYTHON names.
python=${PYTHON:-python3}
skip() { echo "skipped: $*"; exit 77; }

command -v "$python" >/dev/null || skip "there is no $python"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 9))' || skip "$python is older than 3.9"
for module in numpy pandas pip setuptools wheel venv; do
  "$python" -c "import $module" 2>/dev/null ||
    skip "$python has no module $module (third_party/install.sh python, or PYTHON names another Python)"
done
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
