/* A wall clock that can be set, for one process and its children.
 *
 * This library is preloaded (LD_PRELOAD) and replaces the C library's wall clocks. It adds an offset, which is in the
 * file that LOCK_TEST_CLOCK names: eight bytes, signed nanoseconds in the machine's byte order. The file is mapped, so
 * what a case writes to it counts from the next reading on. Monotonic clocks are not changed: setting a machine's clock
 * does not change them either. A thread that waits until a time of the wall clock waits until that time of this clock.
 *
 * It has no effect on programs that read the clock without the C library: statically linked ones, and those in Go.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000000000LL

/* Null until the file is mapped. The C library itself may read the time before that. */
static const volatile int64_t *offset;

__attribute__((constructor)) static void map_offset(void) {
    const char *path = getenv("LOCK_TEST_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *mapped = mmap(NULL, sizeof *offset, PROT_READ, MAP_SHARED, file, 0);
    if (mapped != MAP_FAILED) offset = mapped;
    close(file);
}

/* Adds the offset to the machine's time, or subtracts it from a time of this clock. */
static void shift(struct timespec *time, int64_t by) {
    int64_t nanos = time->tv_nsec + by % SECOND;
    int64_t carry = nanos < 0 ? -1 : nanos / SECOND;
    time->tv_sec += by / SECOND + carry;
    time->tv_nsec = nanos - carry * SECOND;
}

static int is_wall_clock(clockid_t clock) {
    return clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE || clock == CLOCK_TAI;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    /* The system call, because this function replaces the C library's own one. */
    int failed = syscall(SYS_clock_gettime, clock, now);
    if (failed || !offset || !is_wall_clock(clock)) return failed;
    shift(now, *offset);
    return 0;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec precise;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &precise)) return -1;
    now->tv_sec = precise.tv_sec;
    now->tv_usec = precise.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *now) {
    struct timespec precise;
    if (clock_gettime(CLOCK_REALTIME, &precise)) return -1;
    if (now) *now = precise.tv_sec;
    return precise.tv_sec;
}

int timespec_get(struct timespec *now, int base) {
    return base == TIME_UTC && clock_gettime(CLOCK_REALTIME, now) == 0 ? base : 0;
}

/* A condition's clock is in its attributes, which are not known here. So the clock is found by the time: no machine has
 * been up for 30 years, and no wall clock shows one of its first 30 years. */
int pthread_cond_timedwait(pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex,
                           const struct timespec *restrict until) {
    if (until->tv_sec < 30LL * 365 * 86400) return pthread_cond_clockwait(condition, mutex, CLOCK_MONOTONIC, until);
    struct timespec machines = *until;
    if (offset) shift(&machines, -*offset);
    return pthread_cond_clockwait(condition, mutex, CLOCK_REALTIME, &machines);
}
