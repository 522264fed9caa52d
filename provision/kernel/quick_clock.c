/* Preloaded into fio on a machine in virtual time, so that a job takes the time of its load and little else.
 *
 * fio learns the pace of the processor's counter from reading the clock until enough of it has passed, some 250,000 times
 * (__fio_calibrate in fio's gettime.c). Where computing takes no time that is four seconds of the computer. Here each of the
 * first readings is PAUSE_NANOSECONDS later than the one before, and the process's clock stays ahead by what they add up to:
 * no time of the machine passes. It is the monotonic clock, of which fio uses differences alone.
 *
 * Before its load begins fio looks every tenth of a second whether all of its threads have started (run_threads in
 * backend.c): they start at once, so it looks sooner.
 *
 * cc -O2 -shared -fPIC -o quick_clock.so quick_clock.c
 */

#define _GNU_SOURCE
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define READINGS 130
#define PAUSE_NANOSECONDS 1300000L
#define NANOSECONDS_PER_SECOND 1000000000L
#define LOOK_MICROSECONDS 100000
#define SOONER_MICROSECONDS 1000

static long readings;

int clock_gettime(clockid_t clock, struct timespec *now) {
  int status = syscall(SYS_clock_gettime, clock, now);
  long ahead;

  if (status || (clock != CLOCK_MONOTONIC && clock != CLOCK_MONOTONIC_RAW))
    return status;
  ahead = __atomic_load_n(&readings, __ATOMIC_RELAXED);
  if (ahead < READINGS)
    ahead = __atomic_add_fetch(&readings, 1, __ATOMIC_RELAXED);
  now->tv_nsec += ahead * PAUSE_NANOSECONDS;
  now->tv_sec += now->tv_nsec / NANOSECONDS_PER_SECOND;
  now->tv_nsec %= NANOSECONDS_PER_SECOND;
  return 0;
}

int usleep(useconds_t microseconds) {
  long wanted = microseconds == LOOK_MICROSECONDS ? SOONER_MICROSECONDS : microseconds;
  struct timespec pause = {wanted / 1000000, wanted % 1000000 * 1000};

  return syscall(SYS_nanosleep, &pause, 0) ? -1 : 0;
}
