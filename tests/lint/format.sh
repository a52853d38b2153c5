#!/bin/sh
# Every source file follows .clang-format. Versions of clang-format differ; Debian 12's decides.
set -eu
cd "$(dirname "$0")/../.."
version=14
tool=$(command -v clang-format-$version || command -v clang-format || true)
if [ -z "$tool" ] || ! "$tool" --version | grep -q "version $version\."; then
  echo "format: skipped, there is no clang-format $version here (third_party/install.sh lint)"
  exit 0
fi
# Tables of hashes and models are data.
git ls-files -co --exclude-standard | grep -E '\.(h|cpp|cu|c|inc)$' | grep -v -e _hashes.inc -e _models.inc |
  while read -r file; do [ ! -e "$file" ] || echo "$file"; done | xargs "$tool" --dry-run -Werror
echo "format: every file is laid out as .clang-format says"
