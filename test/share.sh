#!/bin/bash
# share.sh PROGRAM ARGUMENT...: runs the test program of a package (go test -exec), and adds to the file
# SHARES how many seconds it took, and how many it computed, its children included.
# share.sh --print: prints that of all packages, what computed most first.
if [ "$1" = --print ]; then
  awk '{ computed[$4] += $2 + $3; took[$4] += $1; all += $2 + $3 }
    END { for (p in took) if (took[p] >= 10) printf "%-28s took %4.0f s, computed %4.0f s, %2.0f%% of all\n", p, took[p], computed[p], 100 * computed[p] / all }' \
    "$SHARES" | sort -t, -k2.10 -rn
  exit
fi
TIMEFORMAT="%R %U %S ${PWD#"$ROOT"/}"
{ time "$@" 2>&3 3>&-; } 3>&2 2>>"$SHARES"
