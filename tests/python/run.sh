#!/bin/sh
# Installs the Python package into a virtual environment, as a user would, and runs the claims beside this file.
#   run.sh PACKAGE_FOLDER ECMV LIBRARY SOURCE [TEST...]     exit status 77: skipped, with the reason
set -eu
package=$1 ecmv=$2 library=$3 source=$4
shift 4
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
. "$here/environment.sh"
case " $* " in
  *torch* | *embeddings*) "$python" -c "import torch" 2>/dev/null || skip "$python has no module torch" ;;
esac
case " $* " in
  *transformers* | *bench*) "$python" -c "import torch, transformers" 2>/dev/null ||
    skip "$python has not both modules torch and transformers" ;;
esac
if [ "${ECMV_TEST_DEVICE:-cpu}" != cpu ]; then
  "$python" -c "import sys, torch; sys.exit(not torch.cuda.is_available())" 2>/dev/null ||
    skip "$python has no torch with a GPU here"
fi
cp -r "$package" "$place/package"  # the build leaves files beside the sources
"$python" $pip wheel --no-deps --no-build-isolation --wheel-dir "$place/wheels" "$place/package"
"$inside" $pip install --no-index --no-deps "$place"/wheels/ecmv-*.whl

cd "$place"
case " $* " in
  *torch* | *embeddings* | *transformers*) warnings=default ;;  # theirs are not ours
  *) warnings=error ;;
esac
ECMV_COMMAND=$ecmv ECMV_LIBRARY=$library ECMV_TEST_SOURCE=$source MPLBACKEND=Agg PYTHONPATH=$here HF_HUB_OFFLINE=1 \
  "$inside" -B -W $warnings::DeprecationWarning -m unittest --buffer "${@:-claims}"
