#!/bin/sh
# Builds robot.c with the libraries inside the Python packages mujoco and onnxruntime:  sh build.sh PROGRAM
# PYTHON is the interpreter that has them. The program itself needs no Python. It finds ONNX Runtime by a link beside
# itself, because the package's library has another file name than programs look for.
set -eu
here=$(dirname "$0")
place() { "${PYTHON:-python3}" -c "import importlib.util as u; print(u.find_spec('$1').submodule_search_locations[0])"; }
mujoco=$(place mujoco)
onnxruntime=$(place onnxruntime)/capi
ln -sf "$onnxruntime"/libonnxruntime.so.* "$(dirname "$1")/libonnxruntime.so.1"
exec "${CC:-cc}" -std=c11 -O2 -Wall -Wextra -Werror -o "$1" "$here/robot.c" "-I$mujoco/include" \
  "$mujoco"/libmujoco.so.* "$onnxruntime"/libonnxruntime.so.* "-Wl,-rpath,$mujoco" '-Wl,-rpath,$ORIGIN' -lm
