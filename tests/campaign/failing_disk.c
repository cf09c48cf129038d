// For LD_PRELOAD: while the file $CAMPAIGN_DISK_FAILS exists, writes to files below the folder $CAMPAIGN_DISK fail with EIO.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int fails(int file) {
  const char* const folder = getenv("CAMPAIGN_DISK");
  const char* const mark = getenv("CAMPAIGN_DISK_FAILS");
  if (!folder || !mark || access(mark, F_OK) != 0) return 0;
  char link[64], path[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  const ssize_t length = readlink(link, path, sizeof path - 1);
  path[length < 0 ? 0 : length] = '\0';
  if (strncmp(path, folder, strlen(folder)) != 0) return 0;
  errno = EIO;
  return 1;
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

ssize_t write(int file, const void* from, size_t count) {
  return fails(file) ? -1 : NEXT(write)(file, from, count);
}
ssize_t pwrite(int file, const void* from, size_t count, off_t at) {
  return fails(file) ? -1 : NEXT(pwrite)(file, from, count, at);
}
ssize_t pwrite64(int file, const void* from, size_t count, off64_t at) {
  return fails(file) ? -1 : NEXT(pwrite64)(file, from, count, at);
}
int fsync(int file) { return fails(file) ? -1 : NEXT(fsync)(file); }
int fdatasync(int file) { return fails(file) ? -1 : NEXT(fdatasync)(file); }
