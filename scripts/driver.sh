#!/bin/sh
# Runs a job's Python under spark-submit. Spark joins its stderr to its stdout and hides the terminal from it;
# here both are opened anew from the parent, which is Spark's JVM, so that pipes, colours and 2>file work as usual.
# The JVM's own 2 goes through a pipe, its 9 is where that pipe ends. Where none of this can be (no /proc, a socket),
# they stay as Spark made them.
for pair in 1:1 2:9; do
  n=${pair%:*} from=/proc/$PPID/fd/${pair#*:}
  if (eval ": $n>>\"$from\"") 2>/dev/null; then eval "exec $n>>\"$from\""; fi
done
exec "$FEATURELIB_PYTHON" "$(dirname "$0")/driver.py" "$@"
