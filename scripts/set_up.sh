#!/bin/sh
# Makes a virtual environment, and makes it anew where a Python of another version is asked for.
#   set_up.sh FOLDER FOLDER_OF_PROGRAMS [PYTHON]
set -eu
venv=$1 bin=$2 asked=${3-}
least=$(sed -n 's/^requires-python = ">=\(.*\)"/\1/p' pyproject.toml)

version_of() { "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null || true; }
is_new_enough() { "$1" -c "import sys; sys.exit(sys.version_info < ($(echo "$least" | tr . ,)))" 2>/dev/null; }
refuse() { echo "$1; install Python $least or later, or name one: make run PYTHON=python$least" >&2 && exit 1; }

there=$(version_of "$bin/python")
if [ -n "$asked" ]; then
  wanted=$(version_of "$asked")
  [ -n "$wanted" ] || refuse "There is no Python named $asked here"
  is_new_enough "$asked" || refuse "$asked is Python $wanted, and anydml needs $least or later"
  [ "$there" = "$wanted" ] || there=
elif [ -z "$there" ]; then
  for asked in python3.11 python3.12 python3.13 python3.14 python3 python; do
    is_new_enough "$asked" && break
  done
  is_new_enough "$asked" || refuse "There is no Python $least or later here"
fi
if [ -z "$there" ]; then
  rm -rf "$venv"
  "$asked" -m venv "$venv"
fi
[ "$(cat "$venv/version" 2>/dev/null)" = "$(version_of "$bin/python")" ] || version_of "$bin/python" > "$venv/version"
