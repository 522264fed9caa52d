/* SPDX-License-Identifier: GPL-2.0 */
/* An emulated drive inside the embedded kernel: what lies between its block driver (lab_drive_kern.c) and its model and
 * medium (lab_drive_user.c), which is a program of the computer and may use floating point and the C library.
 *
 * Times are nanoseconds of the machine's monotonic clock, positions and lengths bytes.
 */

#ifndef LAB_DRIVE_H
#define LAB_DRIVE_H

#define LAB_DRIVE_TAGS 128
#define LAB_DRIVE_NEVER 0x7fffffffffffffffLL
/* The longest time for a request: all that can be under way add up to no more than a clock holds. */
#define LAB_DRIVE_LONGEST 1000000000000LL

enum lab_drive_op { LAB_READ, LAB_WRITE, LAB_FLUSH, LAB_DISCARD };

struct lab_drive;

/* A blank drive, or one on a file of the computer (null: none). `words`: see lab_drive_user.c. Null and a reason for bad
 * ones. */
struct lab_drive *lab_drive_open(const char *words, const char *file, long long bytes, const char **reason);
void lab_drive_close(struct lab_drive *drive);

/* Answer at another pace from now on: one request each so many nanoseconds, or when the drive is done if that is later;
 * 0: its own. */
void lab_drive_pace(struct lab_drive *drive, long long nanoseconds);
/* The power fails for an instant: what only the write cache holds is lost. */
void lab_drive_lose_cache(struct lab_drive *drive, long long now);
/* Whether it is to be told to empty its cache, and which writes must go past that. */
int lab_drive_takes_flush(const struct lab_drive *drive);

/* Take a request. Returns whether a write's data are to be handed over at once, to the drive's cache. */
int lab_drive_take(struct lab_drive *drive, int tag, enum lab_drive_op op, long long at, long long length, int through,
                   long long now);
/* When the drive is to be asked again; LAB_DRIVE_NEVER if nothing is under way. */
long long lab_drive_next(struct lab_drive *drive);
/* The tag of a request that has ended by now, in the order of their ends; -1 if there is none. */
int lab_drive_ended(struct lab_drive *drive, long long now);
/* Whether a write that has ended was answered by the cache, which has its data. */
int lab_drive_was_cached(struct lab_drive *drive, int tag);
/* Drop a request that is under way; its tag, or -1 if there is none. */
int lab_drive_drop(struct lab_drive *drive);

/* Move data; 0, or -1 if the computer's file failed. */
int lab_drive_read(struct lab_drive *drive, void *to, long long length, long long at);
int lab_drive_write(struct lab_drive *drive, const void *from, long long length, long long at);
void lab_drive_write_cache(struct lab_drive *drive, const void *from, long long length, long long at);
/* Whether the page of this position is known to hold zeros, without a look at it. */
int lab_drive_is_untouched(const struct lab_drive *drive, long long at);
int lab_drive_discard(struct lab_drive *drive, long long length, long long at);

/* What it holds now is its base: null, or why it can have none. And back to that. */
const char *lab_drive_set_base(struct lab_drive *drive);
const char *lab_drive_go_back(struct lab_drive *drive);

#endif
