// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lab_client.h"

#define PIECE 65536

static char *held;
static unsigned long held_from, held_until, held_room;

/* Returns what read(2) does; what has come is in `held`. */
static long receive(int fd) {
  long got;

  if (held_from) {
    memmove(held, held + held_from, held_until - held_from);
    held_until -= held_from;
    held_from = 0;
  }
  if (held_until == held_room) {
    char *more = mmap(NULL, held_room * 2 + PIECE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (more == MAP_FAILED)
      return -1;
    memcpy(more, held, held_until);
    if (held)
      munmap(held, held_room);
    held = more;
    held_room = held_room * 2 + PIECE;
  }
  do
    got = read(fd, held + held_until, held_room - held_until);
  while (got < 0 && errno == EINTR);
  if (got > 0)
    held_until += got;
  return got;
}

/* Of one line, whatever else has come and however many pieces it came in: that is chance. */
long lab_client_read(int fd, void *to, unsigned long length) {
  unsigned long seen = held_from, count;
  char *end;

  while (!(end = held_until > seen ? memchr(held + seen, '\n', held_until - seen) : NULL)) {
    unsigned long looked = held_until - held_from;
    long got = receive(fd);
    if (got <= 0)
      return got < 0 ? -errno : 0;
    seen = held_from + looked;
  }
  count = end + 1 - (held + held_from);
  if (count > length)
    count = length;
  memcpy(to, held + held_from, count);
  held_from += count;
  return count;
}

long lab_client_write(int fd, const void *from, unsigned long length) {
  const char *next = from;
  unsigned long left = length;

  while (left) {
    long done = write(fd, next, left);
    if (done < 0 && errno == EINTR)
      continue;
    if (done < 0)
      return -errno;
    next += done, left -= done;
  }
  return length;
}

int lab_client_has_input(int fd) {
  struct pollfd asked = {fd, POLLIN, 0};

  return held_until > held_from || poll(&asked, 1, 0) > 0;
}
