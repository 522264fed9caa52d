// SPDX-License-Identifier: GPL-2.0
/* The record, in memory of the computer that costs nothing until it is touched. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "lab_record.h"

#define SECTOR_BYTES 512
#define MOST_RECORDS (1L << 21)
#define MOST_DATA (1LL << 31)

static struct lab_record *records;
static unsigned char *data;
static long count;
static long long used;
static unsigned long long events;
static int is_full;

static int has_room(long long length) {
  if (!records) {
    void *index = mmap(NULL, MOST_RECORDS * sizeof *records, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    void *room = mmap(NULL, MOST_DATA, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (index != MAP_FAILED && room != MAP_FAILED)
      records = index, data = room;
  }
  if (!records || count == MOST_RECORDS || used + length > MOST_DATA)
    is_full = 1;
  return !is_full;
}

static struct lab_record *add(unsigned int drive, int op, unsigned long long sector, unsigned int sectors) {
  struct lab_record *r = &records[count++];

  memset(r, 0, sizeof *r);
  r->came = ++events;
  r->drive = drive, r->op = op, r->sector = sector, r->count = sectors;
  r->data = used;
  return r;
}

long lab_record_request(unsigned int drive, enum lab_drive_op op, long long at, long long length, int through) {
  struct lab_record *r;

  if (!has_room(op == LAB_WRITE ? length : 0))
    return -1;
  r = add(drive, op, at / SECTOR_BYTES, length / SECTOR_BYTES);
  r->flags = through ? LAB_RECORD_THROUGH : 0;
  return count - 1;
}

void lab_record_data(long record, const void *from, long long length) {
  if (record < 0)
    return;
  memcpy(data + used, from, length);
  used += length;
}

void lab_record_end(long record, int failed) {
  /* The record may have been forgotten meanwhile. */
  if (record < 0 || record >= count)
    return;
  records[record].ended = ++events;
  records[record].flags |= failed ? LAB_RECORD_FAILED : 0;
}

long long lab_record_mark(unsigned int value) {
  if (!has_room(0))
    return -1;
  add(0, LAB_RECORD_MARK, 0, value);
  records[count - 1].ended = events;
  return events;
}

void lab_record_clear(void) {
  if (records) {
    madvise(records, count * sizeof *records, MADV_DONTNEED);
    madvise(data, used, MADV_DONTNEED);
  }
  count = 0, used = 0, is_full = 0;
}

int lab_record_is_full(void) { return is_full; }

long lab_record_read(int is_data, void *to, unsigned long length, long long at) {
  const unsigned char *from = is_data ? data : (const unsigned char *)records;
  long long end = is_data ? used : count * (long long)sizeof *records;

  if (at < 0 || at >= end)
    return 0;
  if ((long long)length > end - at)
    length = end - at;
  memcpy(to, from + at, length);
  return length;
}

/* "12", "5-9" or "12:0-7" at `*words`, which moves behind it. 0, or -1 for anything else. */
static int next_word(const char **words, long *first, long *last, long *from, long *until) {
  char *end;

  *first = *last = strtol(*words, &end, 10);
  *from = 0, *until = -1;
  if (end == *words)
    return -1;
  if (*end == '-')
    *last = strtol(end + 1, &end, 10);
  else if (*end == ':') {
    *from = strtol(end + 1, &end, 10);
    if (*end != '-')
      return -1;
    *until = strtol(end + 1, &end, 10);
    if (*until < *from)
      return -1;
  }
  if ((*end && *end != ' ') || *first < 0 || *last < *first || *from < 0)
    return -1;
  *words = end + (*end == ' ');
  return 0;
}

static const char *apply(struct lab_drive *drive, unsigned int number, long index, long from, long until) {
  const struct lab_record *r = &records[index];
  long long sectors;
  int failed;

  if (index >= count)
    return "no such record";
  if (r->op == LAB_RECORD_MARK || r->drive != number || r->op == LAB_FLUSH || r->op == LAB_READ)
    return NULL;
  if (until < 0)
    until = r->count - 1;
  if (until >= (long)r->count)
    return "a record has no such sectors";
  sectors = until - from + 1;
  if (sectors <= 0)
    return NULL;
  if (r->op == LAB_WRITE)
    failed = lab_drive_write(drive, data + r->data + from * SECTOR_BYTES, sectors * SECTOR_BYTES,
                             (r->sector + from) * SECTOR_BYTES);
  else
    failed = lab_drive_discard(drive, sectors * SECTOR_BYTES, (r->sector + from) * SECTOR_BYTES);
  return failed ? "it cannot be written" : NULL;
}

const char *lab_drive_restore(struct lab_drive *drive, unsigned int number, const char *words) {
  const char *wrong = lab_drive_go_back(drive);
  long first, last, from, until;

  while (!wrong && *words) {
    if (next_word(&words, &first, &last, &from, &until) < 0)
      wrong = "no list of records";
    for (; !wrong && first <= last; first++)
      wrong = apply(drive, number, first, from, until);
  }
  if (wrong)
    lab_drive_go_back(drive);
  return wrong;
}
