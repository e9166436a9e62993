"""Run a job as `python JOB OPTION…` would. End it with one line after an interrupt, or when Spark's
process has ended: otherwise the job would continue although its caller believes that it has
ended."""

import os
import runpy
import signal
import sys
import threading
import time

try:
    from featurelib.cli.streams import leave_at_interrupt, say_interrupted
except KeyboardInterrupt:  # before the handler is set
    os.write(2, b"error: interrupted; run again, nothing is counted twice\n")
    os._exit(130)


def end_with_spark() -> None:
    """End this process when standard input ends, because the process that started it has ended."""
    while os.read(0, 1):
        pass
    time.sleep(1)  # code that calls Spark at this moment prints its own line
    os.write(2, b"error: Spark's process was ended; run the command again, nothing is done twice\n")
    os._exit(143)


def end_at_interrupt(reader: int) -> None:
    """End this process with one line when a SIGINT arrives in the pipe of signals."""
    while number := os.read(reader, 1):
        if number[0] == signal.SIGINT:
            os._exit(say_interrupted())


if "PYSPARK_GATEWAY_PORT" in os.environ:
    threading.Thread(target=end_with_spark, daemon=True).start()
# A background job of a script ignores interrupts, and keeps doing so.
if signal.getsignal(signal.SIGINT) != signal.SIG_IGN:
    leave_at_interrupt()
    # Spark sets its own handler when a session starts, but Python still writes the signal to the
    # pipe.
    signals, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    threading.Thread(target=end_at_interrupt, args=(signals,), daemon=True).start()
sys.argv = sys.argv[1:]
sys.path[0] = os.path.dirname(os.path.abspath(sys.argv[0]))
runpy.run_path(sys.argv[0], run_name="__main__")
