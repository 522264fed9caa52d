// SPDX-License-Identifier: GPL-2.0
/* The model and the medium of an emulated drive. Words of a drive, separated by spaces:
 *
 *   service=NANOSECONDS [concurrent=N]       each request takes so long, N of them side by side
 *           [rate=BYTES_PER_SECOND]          and what its data take besides
 *   rpm=7200 cylinders=5172 ...              mechanics, as nbdkit's plugin takes them (plugin.c)
 *
 * Without a file the data lie in memory of the computer, which costs nothing until it is touched.
 */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* User Mode Linux links no libm; the compiler writes these out in line. */
#define fabs __builtin_fabs
#define floor __builtin_floor
#define ceil __builtin_ceil
#define sqrt __builtin_sqrt

#include "lab_drive.h"
#include "mechanics.h"
#include "parameters.h"

#define MOST_SERVERS 64
#define MOST_RATE 1000000000000LL
#define NANOSECONDS_PER_SECOND 1000000000LL
#define PAGE 4096
/* Rounding must not leave the model standing before what is due now: half a nanosecond, and what a double loses late. */
#define HAIR_SECONDS 5e-10
#define HAIR_OF_TIME 1e-15
#define MOST_CACHED_SECTORS 0xfffffffeLL
#define LONGEST_WORD 4095

/* One request under way. */
struct entry {
  struct request request; /* first: the mechanics know only this part */
  enum lab_drive_op op;
  int is_known, is_cached;
  long long earliest, end; /* not answered before; and then, if it is known */
  struct entry *later; /* of those under way, in order of arrival */
};

/* A page as the drive's base has it. */
struct kept {
  long long page;
  unsigned char was_touched, data[PAGE];
};

struct lab_drive {
  long long bytes, service, rate, pace;
  long long free[MOST_SERVERS];
  int servers, is_mechanical, file;
  unsigned char *memory, *touched, *cached; /* of each page of the memory, whether it has ever held anything but zeros */
  unsigned char *is_kept; /* of each page, whether the base's own is among those kept; null without a base */
  struct kept *kept;
  long long kept_pages;
  struct drive mechanics;
  void *tables[5];
  long long table_bytes[5];
  struct entry entries[LAB_DRIVE_TAGS], *first, **last;
};

static void *blank(long long bytes) {
  void *found = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

  return found == MAP_FAILED ? NULL : found;
}

static void unmap(void *start, long long bytes) {
  if (start)
    munmap(start, bytes);
}

static long long within_page(long long at, long long length) {
  long long rest = PAGE - at % PAGE;

  return length < rest ? length : rest;
}

static int is_blank(const unsigned char *data, long long length) {
  typedef long long piece __attribute__((vector_size(16), aligned(1)));
  const piece *next = (const piece *)data, *end = next + length / sizeof *next;

  /* Whole sectors, hence whole groups of four. */
  for (; next < end; next += 4) {
    piece any = next[0] | next[1] | next[2] | next[3];
    if (any[0] | any[1])
      return 0;
  }
  return 1;
}

/* Before a page changes: what it holds belongs to the base. */
static void keep(struct lab_drive *d, long long page) {
  struct kept *k;
  long long rest = d->bytes - page * PAGE;

  if (!d->is_kept || d->is_kept[page])
    return;
  d->is_kept[page] = 1;
  k = &d->kept[d->kept_pages++];
  k->page = page;
  k->was_touched = d->touched[page];
  if (k->was_touched)
    memcpy(k->data, d->memory + page * PAGE, rest < PAGE ? rest : PAGE);
}

/* Pages that were never written are not touched: to get memory from the computer takes longer than all else. */
static int medium_read(struct lab_drive *d, void *to, long long length, long long at) {
  unsigned char *next = to;
  long long part;

  if (d->memory) {
    for (; length > 0; next += part, at += part, length -= part) {
      part = within_page(at, length);
      if (d->touched[at / PAGE])
        memcpy(next, d->memory + at, part);
      else
        memset(next, 0, part);
    }
    return 0;
  }
  while (length > 0) {
    ssize_t got = pread(d->file, next, length, at);
    if (got < 0 && errno == EINTR)
      continue;
    if (got <= 0)
      return -1;
    next += got, at += got, length -= got;
  }
  return 0;
}

static int medium_write(struct lab_drive *d, const void *from, long long length, long long at) {
  const unsigned char *next = from;
  long long part;

  if (d->memory) {
    for (; length > 0; next += part, at += part, length -= part) {
      part = within_page(at, length);
      if (!d->touched[at / PAGE] && is_blank(next, part))
        continue;
      keep(d, at / PAGE);
      d->touched[at / PAGE] = 1;
      memcpy(d->memory + at, next, part);
    }
    return 0;
  }
  while (length > 0) {
    ssize_t done = pwrite(d->file, next, length, at);
    if (done < 0 && errno == EINTR)
      continue;
    if (done <= 0)
      return -1;
    next += done, at += done, length -= done;
  }
  return 0;
}

static void destage_to_medium(struct drive *mechanics, int64_t sector, int64_t count) {
  struct lab_drive *d = (struct lab_drive *)((char *)mechanics - __builtin_offsetof(struct lab_drive, mechanics));
  int64_t i;

  for (i = sector; i < sector + count; i++)
    medium_write(d, d->cached + (int64_t)mechanics->slot[i] * SECTOR, SECTOR, i * SECTOR);
}

/* A whole number from 1 to `most`; -1 for anything else. */
static long long count_of(const char *text, long long most) {
  char *end;
  long long value;

  errno = 0;
  value = strtoll(text, &end, 10);
  return end == text || *end || errno || value < 1 || value > most ? -1 : value;
}

/* Returns a reason, or null. Drives are opened one after another, and the kernel's stack is small. */
static const char *take_words(struct lab_drive *d, const char *words, struct parameters *p) {
  static char word[LONGEST_WORD + 1];
  char *value;
  int used;

  for (; sscanf(words, " %4095s%n", word, &used) == 1; words += used) {
    value = strchr(word, '=');
    if (!value)
      return "a word without '='";
    *value++ = 0;
    if (!strcmp(word, "service"))
      d->service = count_of(value, LAB_DRIVE_LONGEST);
    else if (!strcmp(word, "concurrent"))
      d->servers = count_of(value, MOST_SERVERS);
    else if (!strcmp(word, "rate"))
      d->rate = count_of(value, MOST_RATE);
    else if (take_parameter(p, word, value) == 0)
      d->is_mechanical = 1;
    else
      return "no such word of a drive";
  }
  if (d->is_mechanical && !is_whole(p))
    return "rpm, cylinders, surfaces, zones, queue and interface must be given and above 0, and times and "
           "buffers below what any drive has";
  if (p->write_cache_sectors && d->bytes / SECTOR > MOST_CACHED_SECTORS)
    return "a drive with a write cache must be smaller than 2 TiB";
  if (!d->is_mechanical && (d->service < 0 || d->servers < 0 || d->rate < 0))
    return "service and rate must be from 1 to 10^12, and concurrent from 1 to 64";
  if (!d->is_mechanical == !d->service || (d->is_mechanical && d->rate))
    return "either service or mechanics";
  return NULL;
}

static int use_cache(struct lab_drive *d, long long sectors) {
  const long long slots = d->mechanics.p.write_cache_sectors;
  const long long sizes[5] = {sectors * sizeof(uint32_t), sectors * sizeof(uint32_t), sectors + 1,
                              sectors * sizeof(uint32_t), slots * sizeof(uint32_t)};
  int i;

  d->cached = blank(slots * SECTOR);
  for (i = 0; i < 5; i++) {
    d->table_bytes[i] = sizes[i];
    d->tables[i] = blank(sizes[i]);
    if (!d->tables[i])
      return -1;
  }
  d->mechanics.destage = destage_to_medium;
  drive_use_cache(&d->mechanics, d->tables[0], d->tables[1], d->tables[2], d->tables[3], d->tables[4]);
  return d->cached ? 0 : -1;
}

struct lab_drive *lab_drive_open(const char *words, const char *file, long long bytes, const char **reason) {
  struct lab_drive *d = blank(sizeof *d);
  struct parameters p;

  *reason = "no memory";
  if (!d)
    return NULL;
  memset(&p, 0, sizeof p);
  d->bytes = bytes, d->servers = 1, d->file = -1, d->last = &d->first;
  *reason = take_words(d, words, &p);
  if (!*reason && d->is_mechanical) {
    drive_begin(&d->mechanics, &p, bytes / SECTOR);
    if (p.write_cache_sectors && use_cache(d, bytes / SECTOR) < 0)
      *reason = "no memory for a write cache";
  }
  if (!*reason && file && (d->file = open(file, O_RDWR | O_CLOEXEC)) < 0)
    *reason = "its file cannot be opened";
  if (!*reason && !file && (!(d->memory = blank(bytes)) || !(d->touched = blank(bytes / PAGE + 1))))
    *reason = "no memory for its data";
  if (!*reason)
    return d;
  lab_drive_close(d);
  return NULL;
}

static long long pages_of(const struct lab_drive *d) { return d->bytes / PAGE + 1; }

static void forget_base(struct lab_drive *d) {
  unmap(d->is_kept, pages_of(d));
  unmap(d->kept, pages_of(d) * sizeof *d->kept);
  d->is_kept = NULL, d->kept = NULL, d->kept_pages = 0;
}

const char *lab_drive_set_base(struct lab_drive *d) {
  if (!d->memory || d->is_mechanical)
    return "only a drive with a constant service time can be restored";
  if (d->first)
    return "it has requests under way";
  forget_base(d);
  d->is_kept = blank(pages_of(d));
  d->kept = blank(pages_of(d) * sizeof *d->kept);
  if (d->is_kept && d->kept)
    return NULL;
  forget_base(d);
  return "no memory";
}

const char *lab_drive_go_back(struct lab_drive *d) {
  long long i;

  if (!d->is_kept)
    return "it has no base";
  if (d->first)
    return "it has requests under way";
  for (i = 0; i < d->kept_pages; i++) {
    const struct kept *k = &d->kept[i];
    long long at = k->page * PAGE, rest = d->bytes - at;

    d->touched[k->page] = k->was_touched;
    if (k->was_touched)
      memcpy(d->memory + at, k->data, rest < PAGE ? rest : PAGE);
    else
      memset(d->memory + at, 0, rest < PAGE ? rest : PAGE);
    d->is_kept[k->page] = 0;
  }
  d->kept_pages = 0;
  return NULL;
}

void lab_drive_close(struct lab_drive *d) {
  int i;

  if (d->file >= 0)
    close(d->file);
  unmap(d->memory, d->bytes);
  unmap(d->touched, d->bytes / PAGE + 1);
  forget_base(d);
  unmap(d->cached, d->mechanics.p.write_cache_sectors * SECTOR);
  for (i = 0; i < 5; i++)
    unmap(d->tables[i], d->table_bytes[i]);
  munmap(d, sizeof *d);
}

void lab_drive_pace(struct lab_drive *d, long long nanoseconds) { d->pace = nanoseconds; }

static double seconds(long long nanoseconds) { return nanoseconds / 1e9; }

static long long nanoseconds(double seconds) { return (long long)ceil(seconds * 1e9); }

static void advance(struct lab_drive *d, long long now) {
  if (d->is_mechanical)
    drive_advance(&d->mechanics, seconds(now) + HAIR_SECONDS + seconds(now) * HAIR_OF_TIME);
}

void lab_drive_lose_cache(struct lab_drive *d, long long now) {
  /* Not what it has written by now, which is done only when somebody asks. */
  advance(d, now);
  if (d->cached)
    lose_cache(&d->mechanics);
}

int lab_drive_takes_flush(const struct lab_drive *d) { return !d->is_mechanical || d->cached; }

/* The end of a request that needs no mechanics: behind what one server has, at once if there are several. */
static long long constant_end(struct lab_drive *d, enum lab_drive_op op, long long length, long long now) {
  int i, first = 0, servers = d->pace ? 1 : d->servers;
  long long each = d->pace ? d->pace : d->service + (d->rate ? length * NANOSECONDS_PER_SECOND / d->rate : 0);

  if (op > LAB_WRITE && servers > 1)
    return now;
  for (i = 1; i < servers; i++)
    if (d->free[i] < d->free[first])
      first = i;
  d->free[first] = (d->free[first] > now ? d->free[first] : now) + (op > LAB_WRITE ? 0 : each);
  return d->free[first];
}

static void note_end(struct entry *e, long long end) {
  e->end = end > e->earliest ? end : e->earliest;
  e->is_known = 1;
}

int lab_drive_take(struct lab_drive *d, int tag, enum lab_drive_op op, long long at, long long length, int through,
                   long long now) {
  struct entry *e = &d->entries[tag];
  struct request *r = &e->request;

  memset(e, 0, sizeof *e);
  e->op = op;
  *d->last = e;
  d->last = &e->later;
  e->earliest = d->is_mechanical && !d->pace ? now : constant_end(d, op, length, now);
  if (!d->is_mechanical || op == LAB_DISCARD) {
    /* Discarding takes no time, as on drives that only note it. */
    note_end(e, now);
  } else if (op == LAB_FLUSH) {
    note_end(e, nanoseconds(drive_flush(&d->mechanics, seconds(now))));
  } else {
    r->arrival = seconds(now);
    r->sector = at / SECTOR;
    r->count = length / SECTOR;
    r->is_write = op == LAB_WRITE;
    r->through = through;
    drive_submit(&d->mechanics, r);
    e->is_cached = r->is_ended && r->is_write && d->cached && d->mechanics.is_dirty[r->sector];
  }
  return e->is_cached;
}

static void note_ends(struct lab_drive *d, long long now) {
  struct entry *e;

  if (!d->is_mechanical)
    return;
  advance(d, now);
  for (e = d->first; e; e = e->later)
    if (e->request.is_ended && !e->is_known)
      note_end(e, nanoseconds(e->request.end));
}

long long lab_drive_next(struct lab_drive *d) {
  long long next = LAB_DRIVE_NEVER, begin;
  struct entry *e;

  note_ends(d, 0);
  for (e = d->first; e; e = e->later)
    if (e->is_known && e->end < next)
      next = e->end;
  if (d->is_mechanical && d->mechanics.queue) {
    /* Then it begins another, and which one that is shows only then. */
    begin = nanoseconds(larger(d->mechanics.free, d->mechanics.queue->arrival));
    if (begin < next)
      next = begin;
  }
  return next;
}

int lab_drive_ended(struct lab_drive *d, long long now) {
  struct entry **at, **found = NULL, *e;

  note_ends(d, now);
  for (at = &d->first; *at; at = &(*at)->later)
    if ((*at)->is_known && (*at)->end <= now && (!found || (*at)->end < (*found)->end))
      found = at;
  if (!found)
    return -1;
  e = *found;
  *found = e->later;
  if (d->last == &e->later)
    d->last = found;
  return (int)(e - d->entries);
}

int lab_drive_was_cached(struct lab_drive *d, int tag) { return d->entries[tag].is_cached; }

int lab_drive_drop(struct lab_drive *d) {
  struct entry *e = d->first;

  d->mechanics.queue = NULL;
  memset(d->free, 0, sizeof d->free);
  if (!e)
    return -1;
  d->first = e->later;
  if (!d->first)
    d->last = &d->first;
  return (int)(e - d->entries);
}

int lab_drive_read(struct lab_drive *d, void *to, long long length, long long at) {
  long long sector = at / SECTOR, done;

  if (medium_read(d, to, length, at) < 0)
    return -1;
  for (done = 0; d->cached && d->mechanics.dirty && done < length; sector++, done += SECTOR)
    if (d->mechanics.is_dirty[sector])
      memcpy((char *)to + done, d->cached + (long long)d->mechanics.slot[sector] * SECTOR, SECTOR);
  return 0;
}

int lab_drive_write(struct lab_drive *d, const void *from, long long length, long long at) {
  return medium_write(d, from, length, at);
}

void lab_drive_write_cache(struct lab_drive *d, const void *from, long long length, long long at) {
  long long sector = at / SECTOR, done;

  for (done = 0; done < length; sector++, done += SECTOR)
    if (d->mechanics.is_dirty[sector])
      memcpy(d->cached + (long long)d->mechanics.slot[sector] * SECTOR, (const char *)from + done, SECTOR);
}

int lab_drive_is_untouched(const struct lab_drive *d, long long at) {
  return d->memory && !d->touched[at / PAGE] && !(d->cached && d->mechanics.dirty);
}

int lab_drive_discard(struct lab_drive *d, long long length, long long at) {
  static const unsigned char zeros[16 * PAGE];
  long long end = at + length, first = (at + PAGE - 1) / PAGE * PAGE, last = end / PAGE * PAGE;

  if (d->cached)
    drop_dirty(&d->mechanics, at / SECTOR, length / SECTOR);
  if (d->memory) {
    long long page;

    for (page = at / PAGE; d->is_kept && page * PAGE < end; page++)
      keep(d, page);
  }
  if (d->memory && first < last) {
    madvise(d->memory + first, last - first, MADV_DONTNEED);
    memset(d->touched + first / PAGE, 0, (last - first) / PAGE);
    memset(d->memory + at, 0, first - at);
    memset(d->memory + last, 0, end - last);
    return 0;
  }
  if (d->file >= 0 && fallocate(d->file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at, length) == 0)
    return 0;
  for (; at < end; at += sizeof zeros)
    if (medium_write(d, zeros, end - at < (long long)sizeof zeros ? end - at : (long long)sizeof zeros, at) < 0)
      return -1;
  return 0;
}
