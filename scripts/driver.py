"""Runs a job as `python JOB OPTION…` would, and ends it in one line when it is interrupted, or when
Spark's process has ended: whoever started the job would take it for ended while it goes on."""

import os
import runpy
import signal
import sys
import threading
import time

try:
    from featurelib.cli.streams import leave_at_interrupt, say_interrupted
except KeyboardInterrupt:  # before there is a handler
    os.write(2, b"error: interrupted; run again, nothing is counted twice\n")
    os._exit(130)


def end_with_spark() -> None:
    """End this process when standard input does: it is a pipe that only Spark's process holds."""
    while os.read(0, 1):
        pass
    time.sleep(1)  # whoever asks Spark for something now says so in a line of its own
    os.write(2, b"error: Spark's process was ended; run it again, nothing is done twice\n")
    os._exit(143)


def end_at_interrupt(reader: int) -> None:
    """End this process by one line once a SIGINT is written to the pipe of all signals."""
    while number := os.read(reader, 1):
        if number[0] == signal.SIGINT:
            os._exit(say_interrupted())


if "PYSPARK_GATEWAY_PORT" in os.environ:
    threading.Thread(target=end_with_spark, daemon=True).start()
if signal.getsignal(signal.SIGINT) != signal.SIG_IGN:  # a script's background job stays as it is
    leave_at_interrupt()
    # Spark puts a handler of its own in place when a session starts: the pipe is told all the same.
    signals, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    threading.Thread(target=end_at_interrupt, args=(signals,), daemon=True).start()
sys.argv = sys.argv[1:]
sys.path[0] = os.path.dirname(os.path.abspath(sys.argv[0]))
runpy.run_path(sys.argv[0], run_name="__main__")
