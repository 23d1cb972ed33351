"""A clock that goes wrong for some processes only."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

# What asks the C library for the time of day: Python, OpenSSL and gRPC do. Durations (CLOCK_MONOTONIC) stay true.
SOURCE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

static long shift(void) {
    const char *text = getenv("SHIFTED_CLOCK_SECONDS");
    return text ? atol(text) : 0;
}

int clock_gettime(clockid_t clock, struct timespec *told) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = (int (*)(clockid_t, struct timespec *)) dlsym(RTLD_NEXT, "clock_gettime");
    int failed = real(clock, told);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) told->tv_sec += shift();
    return failed;
}

int gettimeofday(struct timeval *told, void *zone) {
    struct timespec now;
    (void) zone;
    if (clock_gettime(CLOCK_REALTIME, &now)) return -1;
    told->tv_sec = now.tv_sec;
    told->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *told) {
    struct timespec now;
    if (clock_gettime(CLOCK_REALTIME, &now)) return (time_t) -1;
    if (told) *told = now.tv_sec;
    return now.tv_sec;
}
"""


def why_not() -> str | None:
    """Why no clock can be shifted here; None where one can."""
    return None if shutil.which("gcc") else "shifting a clock needs gcc"


def shifted(folder: Path, seconds: int) -> dict[str, str]:
    """Additions to a program's environment with which it, and what it starts, takes the time to be another."""
    library = folder / "shifted-clock.so"
    if not library.exists():
        source = folder / "shifted-clock.c"
        source.write_text(SOURCE)
        subprocess.run(
            ["gcc", "-shared", "-fPIC", "-O1", "-o", str(library), str(source), "-ldl"], check=True
        )
    return {"LD_PRELOAD": str(library), "SHIFTED_CLOCK_SECONDS": str(seconds)}
