#!/bin/sh
# Runs a program of .venv, which Windows keeps in another folder: `sh scripts/of_venv.sh ruff check .`
for folder in .venv/bin .venv/Scripts; do
  if [ -e "$folder/$1" ] || [ -e "$folder/$1.exe" ]; then
    program=$folder/$1 && shift && exec "$program" "$@"
  fi
done
echo "There is no $1 in .venv; make lint sets it up" >&2
exit 1
