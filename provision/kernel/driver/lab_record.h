/* SPDX-License-Identifier: GPL-2.0 */
/* What was asked of the lab's drives, in one order for all of them, and drives that are made to hold what a power cut at
 * any moment of that could have left.
 *
 * Each event (a request comes, a request ends, a mark) takes the next number of one count, from 1.
 */

#ifndef LAB_RECORD_H
#define LAB_RECORD_H

#include "lab_drive.h"

#define LAB_RECORD_MARK 4 /* beside the kinds of request, enum lab_drive_op */
#define LAB_RECORD_THROUGH 1 /* a write past the drive's cache (FUA) */
#define LAB_RECORD_FAILED 2

/* As /dev/lab-record gives it, in the computer's order of bytes. */
struct lab_record {
  unsigned long long came, ended; /* numbers of events; ended 0: not yet, or it never did */
  unsigned long long sector, data; /* of 512 bytes; where its data begin in /dev/lab-record-data */
  unsigned int count; /* sectors; of a mark, its value */
  unsigned short drive;
  unsigned char op, flags;
};

/* Note a request; the number of its record, from 0, or -1 where there is no more room. */
long lab_record_request(unsigned int drive, enum lab_drive_op op, long long at, long long length, int through);
/* The data of a write, one piece after another. */
void lab_record_data(long record, const void *from, long long length);
void lab_record_end(long record, int failed);
/* The number of the event, or -1. */
long long lab_record_mark(unsigned int value);
/* Forget all of it. */
void lab_record_clear(void);
/* Whether something was left out since, for want of room. */
int lab_record_is_full(void);
/* Bytes of the records, or of their data, from `at` on; less at the end. */
long lab_record_read(int is_data, void *to, unsigned long length, long long at);

/* It holds its base, and over that the records that `words` list, in their order: "3 5-9 12:0-7" is record 3, then 5 to 9,
 * then of record 12 the first eight sectors. Null, or what is wrong: then it holds its base. */
const char *lab_drive_restore(struct lab_drive *drive, unsigned int number, const char *words);

#endif
