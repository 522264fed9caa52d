// SPDX-License-Identifier: GPL-2.0
/* The lab's drives on a kernel that has no driver for them: a program that serves them through two drivers of every
 * distribution. nbd makes the block devices, and cuse the devices for control. Lines to /dev/lab-drives and the record in
 * /dev/lab-record and /dev/lab-record-data are those of the embedded kernel's driver (../driver/lab_drive_kern.c); the
 * drives and the record are the same sources (lab_drive_user.c, lab_record_user.c). Drive N is /dev/nbdN, and
 * /dev/driveN is a link to it.
 *
 *   cc -O2 -I../driver -I../../../lab/disks/drive lab_drives.c ../driver/lab_{drive,record}_user.c
 *   modprobe -a cuse nbd; lab_drives      returns once /dev/lab-drives is there; the program continues in the background
 *
 * One thread does everything, so the events of all drives and the marks have one order. Before it obeys a line, it takes
 * all requests that are waiting in the sockets: they came before the line.
 *
 * Sources: Documentation/filesystems/fuse.rst, fs/fuse/cuse.c, linux/fuse.h; drivers/block/nbd.c, linux/nbd.h, and
 * doc/proto.md of github.com/NetworkBlockDevice/nbd.
 */

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <linux/nbd.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "lab_drive.h"
#include "lab_record.h"

#define MOST_DRIVES 64
#define SECTOR 512
#define LONGEST_LINE 65536
#define LONGEST_REQUEST (32 << 20) /* of nbd: its own limit is 32 MiB */
#define MOST_TRANSFER (128 << 10)
#define COMMAND_ZERO 6 /* NBD_CMD_WRITE_ZEROES and NBD_FLAG_SEND_WRITE_ZEROES, not in linux/nbd.h before Linux 6.12 */
#define FLAG_ZERO (1 << 6)

/* A request under way. */
struct job {
  char handle[8];
  enum lab_drive_op op;
  long long at, length, record; /* record -1: it is not recorded */
  unsigned char *data;
  int is_cached, is_taken;
};

struct served {
  struct lab_drive *drive;
  int number, socket, device;
  pid_t client; /* the process in NBD_DO_IT */
  long long bytes;
  int is_pulled, is_recorded;
  unsigned char *buffer; /* what has come of the next request */
  size_t have, room;
  struct job jobs[LAB_DRIVE_TAGS];
};

enum { CONTROL, RECORD, DATA, DEVICES };
static const char *const names[DEVICES] = {"lab-drives", "lab-record", "lab-record-data"};

static struct served *drives[MOST_DRIVES];
static int devices[DEVICES];
static unsigned char message[LONGEST_LINE * 2 + MOST_TRANSFER];

static long long now_nanoseconds(void) {
  struct timespec now;

  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static void give_up(const char *what) {
  fprintf(stderr, "lab_drives: %s: %s\n", what, strerror(errno));
  exit(1);
}

/* Requests */

/* The reply never waits for long: the kernel's receiver depends on nothing that this program does. */
static void reply(struct served *s, const struct job *job, int error, const void *data) {
  struct nbd_reply head = {.magic = htobe32(NBD_REPLY_MAGIC), .error = htobe32(error)};
  struct iovec parts[2] = {{&head, sizeof head}, {(void *)data, data && !error ? job->length : 0}};

  memcpy((char *)&head + sizeof head - sizeof job->handle, job->handle, sizeof job->handle);
  while (parts[0].iov_len + parts[1].iov_len) {
    ssize_t sent = writev(s->socket, parts, 2);
    size_t first;

    if (sent < 0 && (errno == EINTR || errno == EAGAIN)) {
      struct pollfd room = {s->socket, POLLOUT, 0};
      poll(&room, 1, -1);
      continue;
    }
    if (sent < 0)
      return;
    first = (size_t)sent < parts[0].iov_len ? (size_t)sent : parts[0].iov_len;
    parts[0].iov_base = (char *)parts[0].iov_base + first, parts[0].iov_len -= first;
    parts[1].iov_base = (char *)parts[1].iov_base + (sent - first), parts[1].iov_len -= sent - first;
  }
}

static void finish(struct served *s, int tag, int error) {
  struct job *job = &s->jobs[tag];

  lab_record_end(job->record, error != 0);
  reply(s, job, error, job->op == LAB_READ ? job->data : NULL);
  free(job->data);
  job->data = NULL, job->is_taken = 0;
}

static int move_data(struct served *s, struct job *job) {
  switch (job->op) {
  case LAB_READ:
    return lab_drive_read(s->drive, job->data, job->length, job->at);
  case LAB_WRITE:
    return job->is_cached ? 0 : lab_drive_write(s->drive, job->data, job->length, job->at);
  case LAB_DISCARD:
    return lab_drive_discard(s->drive, job->length, job->at);
  default:
    return 0;
  }
}

static void end_due(struct served *s, long long now) {
  int tag;

  while ((tag = lab_drive_ended(s->drive, now)) >= 0)
    finish(s, tag, move_data(s, &s->jobs[tag]) ? EIO : 0);
}

static enum lab_drive_op op_of(unsigned int type) {
  switch (type) {
  case NBD_CMD_READ:
    return LAB_READ;
  case NBD_CMD_WRITE:
    return LAB_WRITE;
  case NBD_CMD_FLUSH:
    return LAB_FLUSH;
  default:
    return LAB_DISCARD;
  }
}

static int is_valid(const struct served *s, unsigned int type, const struct job *job) {
  if (type != NBD_CMD_READ && type != NBD_CMD_WRITE && type != NBD_CMD_FLUSH && type != NBD_CMD_TRIM &&
      type != COMMAND_ZERO)
    return 0;
  return type == NBD_CMD_FLUSH || (job->at >= 0 && job->at % SECTOR == 0 && job->length % SECTOR == 0 &&
                                   job->length <= s->bytes && job->at <= s->bytes - job->length);
}

/* It is recorded as it comes, with its data: whoever sent it may change them as soon as it has ended. */
static void take(struct served *s, unsigned int type, int through, struct job *asked, const unsigned char *data) {
  int tag = 0;
  struct job *job;

  /* nbd has no more requests under way than tags (queue_depth in nbd_dev_add()). */
  while (tag < LAB_DRIVE_TAGS - 1 && s->jobs[tag].is_taken)
    tag++;
  asked->record = -1;
  if (s->is_pulled || s->jobs[tag].is_taken || !is_valid(s, type, asked)) {
    reply(s, asked, s->is_pulled ? EIO : EINVAL, NULL);
    return;
  }
  job = &s->jobs[tag];
  *job = *asked;
  job->op = op_of(type);
  job->is_taken = 1;
  if (job->op == LAB_FLUSH)
    job->at = job->length = 0;
  if (s->is_recorded && job->op != LAB_READ) {
    job->record = lab_record_request(s->number, job->op, job->at, job->length, through);
    if (job->op == LAB_WRITE)
      lab_record_data(job->record, data, job->length);
  }
  if (job->op == LAB_READ || job->op == LAB_WRITE) {
    job->data = malloc(job->length);
    if (!job->data) {
      finish(s, tag, ENOMEM);
      return;
    }
  }
  if (job->op == LAB_WRITE)
    memcpy(job->data, data, job->length);
  job->is_cached = lab_drive_take(s->drive, tag, job->op, job->at, job->length, through, now_nanoseconds());
  if (job->is_cached)
    lab_drive_write_cache(s->drive, job->data, job->length, job->at);
}

/* The bytes of the next request that must come before it is whole, or -1 for bytes that are none. */
static long long needed(const struct served *s) {
  const struct nbd_request *head = (const void *)s->buffer;
  long long length;

  if (s->have < sizeof *head)
    return sizeof *head;
  length = be32toh(head->len);
  if (be32toh(head->magic) != NBD_REQUEST_MAGIC)
    return -1;
  if ((be32toh(head->type) & 0xffff) != NBD_CMD_WRITE)
    return sizeof *head;
  return length > LONGEST_REQUEST ? -1 : (long long)sizeof *head + length;
}

static void hear(struct served *s) {
  const struct nbd_request *head = (const void *)s->buffer;
  struct job asked;

  memset(&asked, 0, sizeof asked);
  memcpy(asked.handle, (const char *)s->buffer + 8, sizeof asked.handle);
  asked.at = be64toh(head->from);
  asked.length = be32toh(head->len);
  take(s, be32toh(head->type) & 0xffff, !!(be32toh(head->type) & NBD_CMD_FLAG_FUA), &asked, s->buffer + sizeof *head);
}

/* Take all requests that have come; 0, or -1 if the device is gone. */
static int hear_all(struct served *s) {
  for (;;) {
    long long whole = needed(s);
    ssize_t got;

    if (whole < 0)
      return -1;
    if ((long long)s->have == whole && whole >= (long long)sizeof(struct nbd_request)) {
      if ((be32toh(((const struct nbd_request *)(const void *)s->buffer)->type) & 0xffff) == NBD_CMD_DISC)
        return -1;
      hear(s);
      s->have = 0;
      continue;
    }
    if ((size_t)whole > s->room) {
      unsigned char *more = realloc(s->buffer, whole);
      if (!more)
        return -1;
      s->buffer = more, s->room = whole;
    }
    got = recv(s->socket, s->buffer + s->have, whole - s->have, MSG_DONTWAIT);
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0 && errno == EAGAIN)
      return 0;
    if (got <= 0)
      return -1;
    s->have += got;
  }
}

/* Drives */

static long long size_of(int number) {
  char path[64], text[32];
  int file;
  ssize_t got;

  snprintf(path, sizeof path, "/sys/block/nbd%d/size", number);
  file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0)
    return -1;
  got = read(file, text, sizeof text - 1);
  close(file);
  text[got > 0 ? got : 0] = 0;
  return atoll(text);
}

static void forget_drive(int number) {
  struct served *s = drives[number];
  char path[32];

  snprintf(path, sizeof path, "/dev/drive%d", number);
  unlink(path);
  ioctl(s->device, NBD_DISCONNECT);
  close(s->device);
  close(s->socket);
  if (s->client > 0)
    waitpid(s->client, NULL, 0);
  if (s->drive)
    lab_drive_close(s->drive);
  free(s->buffer);
  free(s);
  drives[number] = NULL;
}

/* A process of its own waits in the driver until the device is disconnected. */
static int connect_device(struct served *s) {
  const int flags = NBD_FLAG_HAS_FLAGS | NBD_FLAG_SEND_FLUSH | NBD_FLAG_SEND_FUA | NBD_FLAG_SEND_TRIM | FLAG_ZERO;
  const struct timespec moment = {0, 1000000};
  int pair[2], file, tries;

  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
    return -errno;
  s->socket = pair[0];
  if (ioctl(s->device, NBD_SET_BLKSIZE, (long)SECTOR) < 0 ||
      ioctl(s->device, NBD_SET_SIZE_BLOCKS, (long)(s->bytes / SECTOR)) < 0 ||
      ioctl(s->device, NBD_SET_FLAGS, (long)(lab_drive_takes_flush(s->drive) ? flags : flags & ~0xc)) < 0 ||
      ioctl(s->device, NBD_SET_SOCK, (long)pair[1]) < 0) {
    close(pair[1]);
    return -errno;
  }
  s->client = fork();
  if (s->client == 0) {
    for (file = 3; file < 1024; file++)
      if (file != s->device)
        close(file);
    ioctl(s->device, NBD_DO_IT);
    ioctl(s->device, NBD_CLEAR_SOCK);
    _exit(0);
  }
  close(pair[1]);
  for (tries = 0; s->client > 0 && tries < 5000 && size_of(s->number) != s->bytes / SECTOR; tries++)
    nanosleep(&moment, NULL);
  return s->client < 0 || tries == 5000 ? -EIO : 0;
}

static int add_drive(int number, long long bytes, const char *words) {
  struct served *s = calloc(1, sizeof *s);
  char path[32], target[32];
  const char *reason;
  int failed;

  if (!s)
    return -ENOMEM;
  s->number = number, s->bytes = bytes, s->socket = -1;
  snprintf(target, sizeof target, "/dev/nbd%d", number);
  s->device = open(target, O_RDWR | O_CLOEXEC);
  failed = s->device < 0 ? -errno : size_of(number) ? -EBUSY : 0;
  if (!failed && !(s->drive = lab_drive_open(words, NULL, bytes, &reason)))
    failed = -EINVAL;
  drives[number] = s;
  if (!failed)
    failed = connect_device(s);
  if (failed) {
    forget_drive(number);
    return failed;
  }
  snprintf(path, sizeof path, "/dev/drive%d", number);
  unlink(path);
  return symlink(target + 5, path) < 0 ? -errno : 0;
}

static void pull(struct served *s) {
  int tag;

  s->is_pulled = 1;
  lab_drive_lose_cache(s->drive, now_nanoseconds());
  while ((tag = lab_drive_drop(s->drive)) >= 0)
    finish(s, tag, EIO);
}

/* Lines */

static int record(struct served *s, const char *list, int is_on) {
  const char *wrong = NULL;

  s->is_recorded = 0;
  if (is_on)
    wrong = lab_drive_set_base(s->drive);
  else if (list)
    wrong = lab_drive_restore(s->drive, s->number, list);
  s->is_recorded = is_on && !wrong;
  return wrong ? -EINVAL : 0;
}

static void forget(void) {
  int number, tag;

  for (number = 0; number < MOST_DRIVES; number++)
    for (tag = 0; drives[number] && tag < LAB_DRIVE_TAGS; tag++)
      drives[number]->jobs[tag].record = -1;
  lab_record_clear();
}

/* A whole number of at most `most`, and nothing else; -1 otherwise. */
static long long whole_number(const char *word, long long most) {
  char *end;
  long long value;

  if (!word || *word < '0' || *word > '9')
    return -1;
  errno = 0;
  value = strtoll(word, &end, 10);
  return errno || *end || value > most ? -1 : value;
}

static int obey_drive(const char *verb, int number, char *rest) {
  struct served *s = drives[number];
  char *word = NULL;
  long long value = 0;

  if (!strcmp(verb, "restore"))
    return s ? record(s, rest ? rest : "", 0) : -ENODEV;
  if (!strcmp(verb, "add") || !strcmp(verb, "pace")) {
    word = strsep(&rest, " ");
    value = whole_number(word, 1LL << 50);
    if (value < 0)
      return -EINVAL;
  }
  if (!strcmp(verb, "add"))
    return s ? -EEXIST : value < SECTOR || value % SECTOR || !rest ? -EINVAL : add_drive(number, value, rest);
  if (rest || value > LAB_DRIVE_LONGEST)
    return -EINVAL;
  if (!s)
    return -ENODEV;
  if (!strcmp(verb, "remove"))
    forget_drive(number);
  else if (!strcmp(verb, "record") || !strcmp(verb, "still"))
    return record(s, NULL, !strcmp(verb, "record"));
  else if (!strcmp(verb, "pull"))
    pull(s);
  else if (!strcmp(verb, "plug"))
    s->is_pulled = 0;
  else if (!strcmp(verb, "power"))
    lab_drive_lose_cache(s->drive, now_nanoseconds());
  else if (!strcmp(verb, "pace"))
    lab_drive_pace(s->drive, value);
  else
    return -EINVAL;
  return 0;
}

static int obey(char *line) {
  char *verb = strsep(&line, " ");
  long long number;

  if (!strcmp(verb, "forget")) {
    if (line)
      return -EINVAL;
    forget();
    return 0;
  }
  number = whole_number(strsep(&line, " "), 0xffffffffLL);
  if (number < 0)
    return -EINVAL;
  if (!strcmp(verb, "mark"))
    return line ? -EINVAL : lab_record_mark(number) < 0 ? -ENOSPC : 0;
  return number < MOST_DRIVES ? obey_drive(verb, number, line) : -EINVAL;
}

/* Everything that had come before a line. */
static void hear_drives(void) {
  int number;

  for (number = 0; number < MOST_DRIVES; number++)
    if (drives[number] && hear_all(drives[number]) < 0)
      forget_drive(number);
}

static void end_drives(void) {
  int number;

  for (number = 0; number < MOST_DRIVES; number++)
    if (drives[number])
      end_due(drives[number], now_nanoseconds());
}

/* The text of a write to /dev/lab-drives: the bytes that it took, or a negative error number. */
static long told(char *text, size_t length) {
  char *end = text + length;
  int failed;

  if (length >= LONGEST_LINE)
    return -E2BIG;
  /* Text behind a zero byte would be lost without a word. */
  if (memchr(text, 0, length))
    return -EINVAL;
  while (end > text && (end[-1] == '\n' || end[-1] == ' '))
    end--;
  *end = 0;
  hear_drives();
  end_drives();
  failed = obey(text);
  return failed ? failed : (long)length;
}

/* Character devices (CUSE) */

static void answer(int device, uint64_t unique, int error, const void *data, size_t length) {
  struct fuse_out_header head = {sizeof head + (error ? 0 : length), error, unique};
  struct iovec parts[2] = {{&head, sizeof head}, {(void *)data, error ? 0 : length}};

  if (writev(device, parts, 2) < 0 && errno != ENOENT && errno != EINTR)
    give_up("an answer to the kernel");
}

/* The position of each open file: cuse passes none (cuse_read_iter()). */
struct reader {
  long long at;
};

static void give(int device, int which, const struct fuse_in_header *head, const struct fuse_read_in *asked) {
  static unsigned char piece[MOST_TRANSFER];
  struct reader *reader = (struct reader *)(uintptr_t)asked->fh;
  long got = 0;

  if (which == CONTROL || lab_record_is_full()) {
    answer(device, head->unique, which == CONTROL ? -EINVAL : -ENOSPC, NULL, 0);
    return;
  }
  got = lab_record_read(which == DATA, piece, asked->size < sizeof piece ? asked->size : sizeof piece, reader->at);
  reader->at += got;
  answer(device, head->unique, 0, piece, got);
}

static void initialise(int device, const struct fuse_in_header *head, const char *name) {
  struct {
    struct cuse_init_out out;
    char info[32];
  } body;
  int length;

  memset(&body, 0, sizeof body);
  body.out.major = FUSE_KERNEL_VERSION, body.out.minor = FUSE_KERNEL_MINOR_VERSION;
  body.out.max_read = MOST_TRANSFER, body.out.max_write = MOST_TRANSFER;
  length = snprintf(body.info, sizeof body.info, "DEVNAME=%s", name);
  answer(device, head->unique, 0, &body, sizeof body.out + length + 1);
}

/* Answer one request of the kernel; 0, or -1 if there is none. */
static int serve(int which) {
  const struct fuse_in_header *head = (const void *)message;
  const unsigned char *body = message + sizeof *head;
  int device = devices[which];
  ssize_t got = read(device, message, sizeof message - 1);

  if (got < (ssize_t)sizeof *head)
    return -1;
  switch (head->opcode) {
  case CUSE_INIT:
    initialise(device, head, names[which]);
    break;
  case FUSE_OPEN: {
    struct fuse_open_out out = {.fh = (uintptr_t)calloc(1, sizeof(struct reader))};
    answer(device, head->unique, out.fh ? 0 : -ENOMEM, &out, sizeof out);
    break;
  }
  case FUSE_READ:
    give(device, which, head, (const void *)body);
    break;
  case FUSE_WRITE: {
    const struct fuse_write_in *asked = (const void *)body;
    uint64_t unique = head->unique;
    long done = which == CONTROL ? told((char *)body + sizeof *asked, asked->size) : -EINVAL;
    struct fuse_write_out out = {.size = done > 0 ? done : 0};
    answer(device, unique, done < 0 ? done : 0, &out, sizeof out);
    break;
  }
  case FUSE_RELEASE:
    free((void *)(uintptr_t)((const struct fuse_release_in *)(const void *)body)->fh);
    answer(device, head->unique, 0, NULL, 0);
    break;
  case FUSE_INTERRUPT:
    break;
  default:
    answer(device, head->unique, head->opcode == FUSE_IOCTL ? -ENOTTY : -ENOSYS, NULL, 0);
  }
  return 0;
}

static void serve_forever(void) {
  for (;;) {
    struct pollfd files[DEVICES + MOST_DRIVES];
    long long next = LAB_DRIVE_NEVER, now;
    struct timespec wait;
    int number, count = 0;

    for (number = 0; number < DEVICES; number++)
      files[count++] = (struct pollfd){devices[number], POLLIN, 0};
    for (number = 0; number < MOST_DRIVES; number++)
      if (drives[number]) {
        long long its = lab_drive_next(drives[number]->drive);
        next = its < next ? its : next;
        files[count++] = (struct pollfd){drives[number]->socket, POLLIN, 0};
      }
    now = now_nanoseconds();
    wait.tv_sec = next > now ? (next - now) / 1000000000 : 0;
    wait.tv_nsec = next > now ? (next - now) % 1000000000 : 0;
    if (ppoll(files, count, next == LAB_DRIVE_NEVER ? NULL : &wait, NULL) < 0 && errno != EINTR)
      give_up("poll");
    hear_drives();
    end_drives();
    for (number = 0; number < DEVICES; number++)
      while (serve(number) == 0)
        ;
  }
}

int main(void) {
  int number;
  pid_t pid;

  signal(SIGPIPE, SIG_IGN);
  for (number = 0; number < DEVICES; number++) {
    struct pollfd file;

    devices[number] = open("/dev/cuse", O_RDWR | O_CLOEXEC | O_NONBLOCK);
    if (devices[number] < 0)
      give_up("/dev/cuse");
    file = (struct pollfd){devices[number], POLLIN, 0};
    if (poll(&file, 1, 10000) != 1 || serve(number) < 0)
      give_up(names[number]);
  }
  pid = fork();
  if (pid < 0)
    give_up("fork");
  if (pid > 0)
    return 0;
  setsid();
  /* To serve writes it must not wait for writes (drivers/block/nbd.c has the same for its socket). */
  prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0);
  number = open("/dev/null", O_RDWR);
  for (pid = 0; pid < 3; pid++)
    dup2(number, pid);
  serve_forever();
}
