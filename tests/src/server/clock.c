/*
 * Clocks that the test sets, for one process: the wall clock of the process that this is preloaded into is so many
 * microseconds ahead of the machine's own (behind, where negative) as stand in the first eight bytes of the file that
 * ECHOMQ_TEST_CLOCK names. The clock that counts suspends (CLOCK_BOOTTIME) is ahead by what the next eight bytes say,
 * where there are any. The monotonic clock stays as it is.
 *
 * It asks the kernel itself and allocates nothing, since servers ask for the time before their allocator is ready.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static int file = -1;

__attribute__((constructor)) static void open_file(void) {
    const char *path = getenv("ECHOMQ_TEST_CLOCK");
    if (path) file = open(path, O_RDONLY | O_CLOEXEC);
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    long answer = syscall(SYS_clock_gettime, clock, time);
    off_t place = clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE ? 0 : clock == CLOCK_BOOTTIME ? 8 : -1;
    int64_t ahead;
    if (answer == 0 && place >= 0 && file >= 0 && pread(file, &ahead, sizeof ahead, place) == sizeof ahead) {
        int64_t nanoseconds = (int64_t)time->tv_sec * 1000000000 + time->tv_nsec + ahead * 1000;
        time->tv_sec = nanoseconds / 1000000000;
        time->tv_nsec = nanoseconds % 1000000000;
    }
    return (int)answer;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone) {
    (void)zone;
    struct timespec now;
    int answer = clock_gettime(CLOCK_REALTIME, &now);
    if (answer == 0) {
        time->tv_sec = now.tv_sec;
        time->tv_usec = now.tv_nsec / 1000;
    }
    return answer;
}

time_t time(time_t *seconds) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (seconds) *seconds = now.tv_sec;
    return now.tv_sec;
}
