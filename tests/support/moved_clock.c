// For LD_PRELOAD: clocks that jump in the middle of a program. The file $MOVED_CLOCK has two numbers of 12 characters: seconds
// that the real-time clock and the monotonic clock are ahead. A change of the file moves the clocks of all programs at once.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { kWidth = 13 };  // of a number and the character behind it

static const char* numbers;

__attribute__((constructor)) static void begin(void) {
  const char* const path = getenv("MOVED_CLOCK");
  const int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  if (file < 0) return;
  void* const data = mmap(NULL, 2 * kWidth, PROT_READ, MAP_SHARED, file, 0);
  if (data != MAP_FAILED) numbers = data;
  close(file);
}

static time_t ahead(clockid_t clock) {
  if (!numbers) return 0;
  if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE) return atol(numbers);
  return clock == CLOCK_MONOTONIC || clock == CLOCK_MONOTONIC_COARSE ? atol(numbers + kWidth) : 0;
}

int clock_gettime(clockid_t clock, struct timespec* now) {
  const long result = syscall(SYS_clock_gettime, clock, now);
  if (result == 0) now->tv_sec += ahead(clock);
  return (int)result;
}
int gettimeofday(struct timeval* now, void* zone) {
  (void)zone;
  struct timespec precise;
  clock_gettime(CLOCK_REALTIME, &precise);
  now->tv_sec = precise.tv_sec;
  now->tv_usec = precise.tv_nsec / 1000;
  return 0;
}
time_t time(time_t* to) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (to) *to = now.tv_sec;
  return now.tv_sec;
}

// A wait until a moment of a clock ends when that clock is there, also if it jumps meanwhile: short waits in a row.
int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock, const struct timespec* end) {
  __typeof__(&pthread_cond_clockwait) wait = (__typeof__(&pthread_cond_clockwait))dlsym(RTLD_NEXT, "pthread_cond_clockwait");
  for (;;) {
    struct timespec now;
    clock_gettime(clock, &now);
    const double left = (double)(end->tv_sec - now.tv_sec) + 1e-9 * (double)(end->tv_nsec - now.tv_nsec);
    if (left <= 0) return ETIMEDOUT;
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
    now.tv_nsec += (long)(1e9 * (left < 0.05 ? left : 0.05));
    if (now.tv_nsec >= 1000000000) ++now.tv_sec, now.tv_nsec -= 1000000000;
    const int result = wait(condition, mutex, CLOCK_MONOTONIC, &now);
    if (result != ETIMEDOUT) return result;
  }
}
