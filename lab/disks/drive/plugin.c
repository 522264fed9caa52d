/* A plugin for nbdkit (nbdkit-plugin(3)) that emulates the timing of a mechanical drive.
 *
 *   nbdkit ./drive.so size=BYTES rpm=7200 cylinders=5172 surfaces=5 zones=0.5:186,0.5:124 seek_short=3,0.23,600
 *          seek_long=7.3,0.0024 track_switch=0.8 overhead=1.1 interface=20000000 [queue=32] [read_ahead=BYTES]
 *          [write_cache=BYTES] [backing=PATH] [transport=0.1]
 *
 * Times are in milliseconds. Without backing, the data are in memory. On SIGUSR1 the drive's power fails for an
 * instant, and data that only its write cache held are lost.
 */

#define _GNU_SOURCE
#define NBDKIT_API_VERSION 2

#include <errno.h>
#include <fcntl.h>
#include <nbdkit-plugin.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "mechanics.h"
#include "parameters.h"

#define THREAD_MODEL NBDKIT_THREAD_MODEL_PARALLEL
#define DESTAGE_INTERVAL_SECONDS 0.02

static struct parameters parameters;
static int64_t size;
static char *backing;
/* Half of the time that the socket and the block driver add to each request. One half passes before the drive serves the
 * request, and one half afterwards. */
static double way;

static struct drive drive;
static unsigned char *memory, *cached; /* the medium, unless it is a file, and the slots of the write cache */
static int file = -1;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static volatile sig_atomic_t has_power_failed;

/* A request and the thread that waits for it. */
struct waiter {
  struct request request; /* the first field, because mechanics.h knows only this part */
  pthread_cond_t is_served;
  struct waiter *next;
};
static struct waiter *waiting; /* requests whose end is not yet known */

static double now_seconds(void) {
  struct timespec now;

  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec + now.tv_nsec / 1e9;
}

static void sleep_until(double end) {
  struct timespec at;

  at.tv_sec = (time_t)floor(end);
  at.tv_nsec = (long)((end - at.tv_sec) * 1e9);
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == EINTR)
    ;
}

static int medium_read(void *to, int64_t count, int64_t offset) {
  unsigned char *at = to;

  if (memory) {
    memcpy(to, memory + offset, count);
    return 0;
  }
  while (count > 0) {
    ssize_t got = pread(file, at, count, offset);
    if (got <= 0)
      return -1;
    at += got, offset += got, count -= got;
  }
  return 0;
}

static int medium_write(const void *from, int64_t count, int64_t offset) {
  const unsigned char *at = from;

  if (memory) {
    memcpy(memory + offset, from, count);
    return 0;
  }
  while (count > 0) {
    ssize_t done = pwrite(file, at, count, offset);
    if (done <= 0)
      return -1;
    at += done, offset += done, count -= done;
  }
  return 0;
}

static void destage_to_medium(struct drive *d, int64_t sector, int64_t count) {
  static unsigned char run[DESTAGE_SECTORS * SECTOR];
  int64_t i;

  for (i = 0; i < count; i++)
    memcpy(run + i * SECTOR, cached + (int64_t)d->slot[sector + i] * SECTOR, SECTOR);
  if (medium_write(run, count * SECTOR, sector * SECTOR) < 0)
    nbdkit_error("the write cache could not be written to %s", backing);
}

/* Begin the requests that can begin by now, and wake the threads of those whose end becomes known. The caller
 * holds the lock. */
static void advance(double now) {
  struct waiter **at = &waiting;

  if (has_power_failed) {
    has_power_failed = 0;
    nbdkit_debug("power failed, %lld sectors are lost", (long long)lose_cache(&drive));
  }
  drive_advance(&drive, now);
  while (*at) {
    struct waiter *each = *at;
    if (each->request.is_ended) {
      *at = each->next;
      pthread_cond_signal(&each->is_served);
    } else {
      at = &each->next;
    }
  }
}

/* Serve a request and return whether the write cache took it. The answer is sent half of the added time before the
 * request's end, but the next request still begins at the end. */
static int serve_in_time(struct waiter *w, const void *written) {
  struct request *r = &w->request;
  int64_t i;
  int is_cached;

  pthread_mutex_lock(&lock);
  r->arrival = now_seconds() - way;
  /* Only the order in which requests get the lock counts, because a thread may overtake another one before that. */
  advance(r->arrival);
  drive_submit(&drive, r);
  is_cached = r->is_ended && r->is_write && cached && drive.is_dirty[r->sector];
  for (i = 0; is_cached && i < r->count; i++)
    memcpy(cached + (int64_t)drive.slot[r->sector + i] * SECTOR, (const char *)written + i * SECTOR, SECTOR);
  if (!r->is_ended) {
    pthread_cond_init(&w->is_served, NULL);
    w->next = waiting;
    waiting = w;
    while (!r->is_ended)
      pthread_cond_wait(&w->is_served, &lock);
    pthread_cond_destroy(&w->is_served);
  }
  pthread_mutex_unlock(&lock);
  sleep_until(r->end - way);
  pthread_mutex_lock(&lock);
  advance(now_seconds() + way);
  pthread_mutex_unlock(&lock);
  return is_cached;
}

/* Empty the write cache while there are no requests. Later requests may have to wait for this. */
static void *keep_destaging(void *context) {
  for (;;) {
    double next;
    pthread_mutex_lock(&lock);
    advance(now_seconds());
    next = drive.dirty || drive.queue ? drive.free : 0;
    pthread_mutex_unlock(&lock);
    sleep_until(larger(next, now_seconds() + (next ? 0.0005 : DESTAGE_INTERVAL_SECONDS)));
  }
  return context;
}

static void on_power_failure(int number) {
  (void)number;
  has_power_failed = 1;
}

/* The functions that nbdkit calls. */

static int take(const char *key, const char *value) {
  if (!strcmp(key, "size"))
    return size = atoll(value), 0;
  if (!strcmp(key, "backing"))
    return backing = strdup(value), 0;
  if (!strcmp(key, "transport"))
    return take_milliseconds(value, &way), way /= 2, 0;
  return take_parameter(&parameters, key, value);
}

static int drive_config(const char *key, const char *value) {
  if (take(key, value) == 0)
    return 0;
  nbdkit_error("%s=%s is not a parameter of a drive", key, value);
  return -1;
}

static int drive_config_complete(void) {
  if (size > 0 && is_whole(&parameters))
    return 0;
  nbdkit_error("size, rpm, cylinders, surfaces, zones, queue and interface must be given and above 0, and times and "
               "buffers must be possible for a drive");
  return -1;
}

/* Return zeroed memory that costs nothing until it is touched. */
static void *blank(int64_t bytes) {
  void *found = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

  return found == MAP_FAILED ? NULL : found;
}

static int drive_get_ready(void) {
  int64_t sectors = size / SECTOR;
  uint32_t *older, *newer, *slot, *free_slots;
  unsigned char *is_dirty;

  drive_begin(&drive, &parameters, sectors);
  if (backing)
    file = open(backing, O_RDWR | O_CLOEXEC);
  else
    memory = blank(size);
  if (file < 0 && !memory) {
    nbdkit_error("the medium cannot be opened (%s): %m", backing ? backing : "memory of this size");
    return -1;
  }
  if (!parameters.write_cache_sectors)
    return 0;
  drive.destage = destage_to_medium;
  cached = blank(parameters.write_cache_sectors * SECTOR);
  older = blank(sectors * sizeof *older);
  newer = blank(sectors * sizeof *newer);
  slot = blank(sectors * sizeof *slot);
  free_slots = blank(parameters.write_cache_sectors * sizeof *free_slots);
  is_dirty = blank(sectors + 1);
  if (!cached || !older || !newer || !slot || !free_slots || !is_dirty) {
    nbdkit_error("there is not enough memory for the write cache");
    return -1;
  }
  drive_use_cache(&drive, older, newer, is_dirty, slot, free_slots);
  return 0;
}

static int drive_after_fork(void) {
  struct sigaction failure;
  pthread_t thread;

  if (!parameters.write_cache_sectors)
    return 0;
  memset(&failure, 0, sizeof failure);
  failure.sa_handler = on_power_failure;
  failure.sa_flags = SA_RESTART;
  sigaction(SIGUSR1, &failure, NULL);
  return pthread_create(&thread, NULL, keep_destaging, NULL) ? -1 : 0;
}

static void *drive_open(int readonly) {
  (void)readonly;
  return NBDKIT_HANDLE_NOT_NEEDED;
}

static int64_t drive_get_size(void *handle) {
  (void)handle;
  return size;
}

static int yes(void *handle) {
  (void)handle;
  return 1;
}

static int drive_can_fua(void *handle) {
  (void)handle;
  return NBDKIT_FUA_NATIVE;
}

static int drive_can_flush(void *handle) {
  (void)handle;
  return parameters.write_cache_sectors > 0 || file >= 0;
}

static int drive_pread(void *handle, void *buffer, uint32_t count, uint64_t offset, uint32_t flags) {
  struct waiter w;
  int64_t sector, done = 0;

  (void)handle, (void)flags;
  memset(&w, 0, sizeof w);
  w.request.sector = offset / SECTOR;
  w.request.count = count / SECTOR;
  serve_in_time(&w, NULL);
  if (medium_read(buffer, count, offset) < 0)
    return -1;
  if (!parameters.write_cache_sectors)
    return 0;
  pthread_mutex_lock(&lock);
  for (sector = offset / SECTOR; drive.dirty && done < count; sector++, done += SECTOR)
    if (drive.is_dirty[sector])
      memcpy((char *)buffer + done, cached + (int64_t)drive.slot[sector] * SECTOR, SECTOR);
  pthread_mutex_unlock(&lock);
  return 0;
}

static int drive_pwrite(void *handle, const void *buffer, uint32_t count, uint64_t offset, uint32_t flags) {
  struct waiter w;
  int is_cached;

  (void)handle;
  memset(&w, 0, sizeof w);
  w.request.sector = offset / SECTOR;
  w.request.count = count / SECTOR;
  w.request.is_write = 1;
  w.request.through = (flags & NBDKIT_FLAG_FUA) != 0;
  is_cached = serve_in_time(&w, buffer);
  if (is_cached)
    return 0;
  if (medium_write(buffer, count, offset) < 0)
    return -1;
  return w.request.through && file >= 0 ? fdatasync(file) : 0;
}

static int drive_flush_all(void *handle, uint32_t flags) {
  double end;

  (void)handle, (void)flags;
  pthread_mutex_lock(&lock);
  end = drive_flush(&drive, now_seconds());
  advance(now_seconds());
  pthread_mutex_unlock(&lock);
  sleep_until(end - way);
  return file >= 0 ? fdatasync(file) : 0;
}

/* Discarding takes no time, as on drives that only record it. */
static int drive_trim(void *handle, uint32_t count, uint64_t offset, uint32_t flags) {
  static const unsigned char zeros[65536];
  int64_t end = offset + count, page = 4096, first = (offset + page - 1) / page * page, last = end / page * page;
  int result = 0;

  (void)handle, (void)flags;
  pthread_mutex_lock(&lock);
  if (parameters.write_cache_sectors)
    drop_dirty(&drive, offset / SECTOR, count / SECTOR);
  if (memory && first < last) {
    madvise(memory + first, last - first, MADV_DONTNEED);
    memset(memory + offset, 0, first - offset);
    memset(memory + last, 0, end - last);
    offset = end;
  }
  if (file >= 0 && fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, count) == 0)
    offset = end;
  for (; result == 0 && (int64_t)offset < end; offset += sizeof zeros)
    result = medium_write(zeros, end - offset < sizeof zeros ? end - offset : sizeof zeros, offset);
  pthread_mutex_unlock(&lock);
  return result;
}

static struct nbdkit_plugin plugin = {
    .name = "drive",
    .longname = "a drive with mechanics",
    .config = drive_config,
    .config_complete = drive_config_complete,
    .get_ready = drive_get_ready,
    .after_fork = drive_after_fork,
    .open = drive_open,
    .get_size = drive_get_size,
    .is_rotational = yes,
    .can_write = yes,
    .can_flush = drive_can_flush,
    .can_fua = drive_can_fua,
    .can_trim = yes,
    .can_zero = yes,
    .pread = drive_pread,
    .pwrite = drive_pwrite,
    .flush = drive_flush_all,
    .trim = drive_trim,
    .zero = drive_trim,
    .errno_is_preserved = 1,
};

NBDKIT_REGISTER_PLUGIN(plugin)
