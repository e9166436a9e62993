// A clock 400 days ahead for `LD_PRELOAD`. Only the time of the day is changed: sleeps, timeouts and the monotonic
// clock are the kernel's own. (libfaketime 0.9.10 ends short sleeps of Python 3.11 with EINVAL.)
//     cc -shared -fPIC -O2 -o /tmp/later.so tests/later.c; LD_PRELOAD=/tmp/later.so .venv/bin/pytest tests/controller
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define LATER_S (400L * 86400L)

int clock_gettime(clockid_t clock, struct timespec *now) {
    int failed = syscall(SYS_clock_gettime, clock, now);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += LATER_S;
    return failed;
}

time_t time(time_t *stored) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (stored) *stored = now.tv_sec;
    return now.tv_sec;
}

int gettimeofday(struct timeval *stored, void *zone) {
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    *stored = (struct timeval){now.tv_sec, now.tv_nsec / 1000};
    return 0;
}
