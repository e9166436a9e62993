#!/bin/sh
# Runs a job's Python under spark-submit. Spark joins its stderr to its stdout and hides the terminal from it;
# here both are opened anew from the parent, which is Spark's JVM, so that pipes, colours and 2>file work as usual.
# Where that cannot be (no /proc, a socket), they stay as Spark made them.
for n in 1 2; do
  if (eval ": $n>>\"/proc/$PPID/fd/$n\"") 2>/dev/null; then eval "exec $n>>\"/proc/$PPID/fd/$n\""; fi
done
exec "$FEATURELIB_PYTHON" "$@"
