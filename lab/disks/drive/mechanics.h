/* Simulates the mechanics of a disk drive on its own timeline, without a clock, threads or I/O.
 *
 * The model follows Ruemmler and Wilkes, "An introduction to disk drive modeling" (IEEE Computer, 1994). It has seek
 * times that depend on the distance (square root for short seeks, linear for long ones), rotation, zones, skew,
 * read-ahead and immediate report. Times are in seconds. Positions are in sectors of 512 bytes, or in turns of the
 * platter where the name says so.
 */

#ifndef MECHANICS_H
#define MECHANICS_H

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define SECTOR 512
#define MAX_ZONES 32
/* A request that has waited this long is served first, however far away it is. */
#define LONGEST_WAIT_SECONDS 2.0
/* The longest run that is written from the cache at once, and how many of the oldest sectors may begin a run. */
#define DESTAGE_SECTORS 256
#define DESTAGE_CANDIDATES 64
#define HAIR_TURNS 1e-6

struct zone {
  double share; /* of the drive's cylinders, from the outside inwards */
  int sectors_per_track;
};

/* Parameters as in data sheets. Seek distances are in the real drive's cylinders. */
struct parameters {
  double rpm;
  double cylinders;
  int surfaces;
  int zone_count;
  struct zone zones[MAX_ZONES];
  double seek_short_a, seek_short_b, seek_short_cylinders;
  double seek_long_a, seek_long_b;
  double track_switch, overhead;
  double interface_bytes_per_second;
  int queue_depth;
  int64_t read_ahead_sectors, write_cache_sectors;
};

struct request {
  double arrival;
  int64_t sector, count;
  int is_write;
  int through; /* a write that must be on the medium before it is answered */
  int is_ended; /* whether `end`, the time of the answer, is known */
  double end;
  struct request *next;
};

struct place {
  int64_t cylinder, in_track;
  int surface, per_track;
};

/* A drive. A lab disk is far smaller than a real drive, so it has fewer cylinders, spread over the same stroke. */
struct drive {
  struct parameters p;
  double turn;
  int64_t cylinders;
  double stretch; /* number of the real drive's cylinders for each cylinder of this drive */
  int64_t first_sector[MAX_ZONES], first_cylinder[MAX_ZONES];
  double cylinder_switch;

  struct request *queue; /* in order of arrival */
  double free;           /* when the mechanics will have finished their current work */
  int64_t cylinder;      /* where the head is */
  int surface;
  int64_t stream_sector; /* where read-ahead continues after a read (-1: nowhere), and when the head was there */
  double stream_since;

  /* The volatile write cache, a list of sectors, the oldest first. Links are sector + 1, and 0 is the end. */
  uint32_t *older, *newer;
  unsigned char *is_dirty;
  uint32_t *slot;       /* the slot in the cache with a dirty sector's data */
  uint32_t *free_slots; /* the empty slots; the array has an entry for each slot of the cache */
  uint32_t oldest, newest;
  int64_t dirty;
  double dirty_since;
  void (*destage)(struct drive *d, int64_t sector, int64_t count); /* write a run to the medium */
};

static double larger(double a, double b) { return a > b ? a : b; }

static double seek_seconds(const struct parameters *p, double cylinders) {
  if (cylinders <= 0)
    return 0;
  if (cylinders < p->seek_short_cylinders)
    return p->seek_short_a + p->seek_short_b * sqrt(cylinders);
  return p->seek_long_a + p->seek_long_b * cylinders;
}

static void drive_begin(struct drive *d, const struct parameters *p, int64_t sectors) {
  double shares = 0, mean_track = 0, share = 0;
  int64_t sector = 0, cylinder = 0, end;
  int i;

  memset(d, 0, sizeof *d);
  d->p = *p;
  d->turn = 60.0 / p->rpm;
  d->stream_sector = -1;
  for (i = 0; i < p->zone_count; i++) {
    shares += p->zones[i].share;
    mean_track += p->zones[i].share * p->zones[i].sectors_per_track;
  }
  mean_track /= shares;
  d->cylinders = (int64_t)ceil(sectors / (mean_track * p->surfaces));
  if (d->cylinders < p->zone_count)
    d->cylinders = p->zone_count;
  d->stretch = p->cylinders / d->cylinders;
  for (i = 0; i < p->zone_count; i++) {
    share += p->zones[i].share;
    end = (int64_t)floor(d->cylinders * share / shares + 0.5);
    if (end <= cylinder)
      end = cylinder + 1;
    d->first_sector[i] = sector;
    d->first_cylinder[i] = cylinder;
    sector += (end - cylinder) * p->surfaces * p->zones[i].sectors_per_track;
    cylinder = end;
  }
  d->cylinder_switch = larger(p->track_switch, seek_seconds(p, 1));
}

/* Enable the write cache. All arrays must be zeroed. `free_slots` has write_cache_sectors entries. The others have an
 * entry for each sector, and `is_dirty` has one more. */
static void drive_use_cache(struct drive *d, uint32_t *older, uint32_t *newer, unsigned char *is_dirty, uint32_t *slot,
                            uint32_t *free_slots) {
  uint32_t i;

  d->older = older;
  d->newer = newer;
  d->is_dirty = is_dirty;
  d->slot = slot;
  d->free_slots = free_slots;
  for (i = 0; i < d->p.write_cache_sectors; i++)
    free_slots[i] = i;
}

static struct place locate(const struct drive *d, int64_t sector) {
  struct place found;
  int64_t track;
  int i = 0;

  while (i + 1 < d->p.zone_count && d->first_sector[i + 1] <= sector)
    i++;
  found.per_track = d->p.zones[i].sectors_per_track;
  track = (sector - d->first_sector[i]) / found.per_track;
  found.in_track = (sector - d->first_sector[i]) % found.per_track;
  found.cylinder = d->first_cylinder[i] + track / d->p.surfaces;
  found.surface = (int)(track % d->p.surfaces);
  return found;
}

/* Return where a sector begins, in turns. Tracks are skewed by exactly the time that a switch to them takes. */
static double angle(const struct drive *d, const struct place *at) {
  double tracks = (double)(d->p.surfaces - 1) * at->cylinder + at->surface;
  double turns = (double)at->in_track / at->per_track +
                 (d->p.track_switch * tracks + d->cylinder_switch * at->cylinder) / d->turn;
  return turns - floor(turns);
}

/* Return the seconds from the beginning of the first sector to the end of the last one, and the last one's place. */
static double transfer(const struct drive *d, int64_t sector, int64_t count, struct place *last) {
  struct place at = locate(d, sector);
  double seconds = 0;

  for (;;) {
    int64_t cylinder = at.cylinder, here = at.per_track - at.in_track;
    if (here > count)
      here = count;
    seconds += d->turn * here / at.per_track;
    *last = at;
    sector += here;
    count -= here;
    if (!count)
      return seconds;
    at = locate(d, sector);
    seconds += at.cylinder == cylinder ? d->p.track_switch : d->cylinder_switch;
  }
}

/* Return the seconds from `begin` until the head is at the sector, for the move and the rest of the turn. */
static double access_seconds(const struct drive *d, double begin, int64_t sector) {
  struct place at = locate(d, sector);
  double distance = fabs((double)(at.cylinder - d->cylinder)), move = 0, rest;

  if (distance > 0)
    move = seek_seconds(&d->p, distance * d->stretch);
  else if (at.surface != d->surface)
    move = d->p.track_switch;
  /* A head that is only just behind the sector counts as being on it, because rounding must not cost a turn. */
  rest = angle(d, &at) - (begin + move) / d->turn + HAIR_TURNS;
  rest = rest - floor(rest) - HAIR_TURNS;
  return move + larger(0, rest) * d->turn;
}

static void move_to(struct drive *d, double begin, int64_t sector, int64_t count) {
  double access = access_seconds(d, begin, sector);
  struct place last;

  d->free = begin + access + transfer(d, sector, count, &last);
  d->cylinder = last.cylinder;
  d->surface = last.surface;
  d->stream_sector = -1;
}

/* Return the time of a request that does not need the mechanics. */
static double electronics(const struct drive *d, int64_t count) {
  return d->p.overhead + count * SECTOR / d->p.interface_bytes_per_second;
}

static void unlink_dirty(struct drive *d, int64_t sector) {
  uint32_t older = d->older[sector], newer = d->newer[sector];

  if (older)
    d->newer[older - 1] = newer;
  else
    d->oldest = newer;
  if (newer)
    d->older[newer - 1] = older;
  else
    d->newest = older;
  d->older[sector] = d->newer[sector] = 0;
  d->is_dirty[sector] = 0;
  d->dirty--;
  d->free_slots[d->p.write_cache_sectors - d->dirty - 1] = d->slot[sector];
}

static void link_dirty(struct drive *d, int64_t sector) {
  d->older[sector] = d->newest;
  if (d->newest)
    d->newer[d->newest - 1] = (uint32_t)sector + 1;
  else
    d->oldest = (uint32_t)sector + 1;
  d->newest = (uint32_t)sector + 1;
  d->is_dirty[sector] = 1;
  d->slot[sector] = d->free_slots[d->p.write_cache_sectors - d->dirty - 1];
  d->dirty++;
}

/* Remove a range from the cache, because it is on the medium or discarded. */
static void drop_dirty(struct drive *d, int64_t sector, int64_t count) {
  int64_t end = sector + count;

  for (; d->dirty && sector < end; sector++)
    if (d->is_dirty[sector])
      unlink_dirty(d, sector);
}

/* Write a range's dirty sectors to the medium before the range is written without the cache. Until that write is done,
 * the medium then holds what was answered before. */
static void settle_dirty(struct drive *d, int64_t sector, int64_t count) {
  int64_t end = sector + count;

  for (; d->dirty && sector < end; sector++) {
    if (!d->is_dirty[sector])
      continue;
    if (d->destage)
      d->destage(d, sector, 1);
    unlink_dirty(d, sector);
  }
}

/* Let the power fail, which loses everything that was answered early. Return the number of lost sectors. */
static int64_t lose_cache(struct drive *d) {
  int64_t lost = d->dirty;

  while (d->oldest)
    unlink_dirty(d, d->oldest - 1);
  return lost;
}

/* Write one run of the cache to the medium, beginning with that of the oldest sectors which the head reaches first. */
static void destage_run(struct drive *d, double begin) {
  int64_t best = d->oldest - 1, count = 0;
  double soonest = INFINITY;
  uint32_t link = d->oldest;
  int i;

  for (i = 0; link && i < DESTAGE_CANDIDATES; i++, link = d->newer[link - 1]) {
    int64_t sector = link - 1;
    double seconds;
    if (sector > 0 && d->is_dirty[sector - 1])
      continue;
    seconds = access_seconds(d, begin, sector);
    if (seconds < soonest) {
      soonest = seconds;
      best = sector;
    }
  }
  while (count < DESTAGE_SECTORS && d->is_dirty[best + count])
    count++;
  if (d->destage)
    d->destage(d, best, count);
  drop_dirty(d, best, count);
  move_to(d, begin, best, count);
}

/* Serve a read that continues where the last one ended, because the drive has been reading ahead into its buffer. */
static int serve_from_stream(struct drive *d, double begin, struct request *r) {
  int64_t ahead = d->p.read_ahead_sectors;
  struct place last;
  double passed, rest;

  if (d->stream_sector != r->sector || r->count > ahead)
    return 0;
  passed = d->stream_since + transfer(d, r->sector, r->count, &last);
  if (d->stream_since + transfer(d, r->sector, ahead, &last) < begin) {
    /* The buffer was full and the head had stopped, so all data are there, and reading continues after the buffer. */
    rest = transfer(d, r->sector + r->count, ahead > r->count ? ahead - r->count : 1, &last);
    passed = begin + access_seconds(d, begin, r->sector + ahead) - rest;
  }
  (void)transfer(d, r->sector, r->count, &last);
  d->cylinder = last.cylinder;
  d->surface = last.surface;
  d->stream_sector = r->sector + r->count;
  d->stream_since = passed;
  d->free = larger(begin, passed);
  r->end = larger(d->free, r->arrival + electronics(d, r->count));
  r->is_ended = 1;
  return 1;
}

static void serve(struct drive *d, double begin, struct request *r) {
  if (!r->is_write && serve_from_stream(d, begin, r))
    return;
  /* The overhead of a waiting request passes while the request before it is served. */
  move_to(d, larger(begin, r->arrival + d->p.overhead), r->sector, r->count);
  r->end = d->free;
  r->is_ended = 1;
  if (r->is_write) {
    settle_dirty(d, r->sector, r->count);
  } else {
    d->stream_sector = r->sector + r->count;
    d->stream_since = d->free;
  }
}

/* Choose the command with the shortest access time among those in the drive, or the oldest if it has waited long. */
static struct request **choose(struct drive *d, double begin) {
  struct request **best = &d->queue, **at = &d->queue;
  double soonest = INFINITY;
  int i;

  if (!d->queue->next || begin - d->queue->arrival > LONGEST_WAIT_SECONDS)
    return best;
  for (i = 0; *at && i < d->p.queue_depth && (*at)->arrival <= begin; i++, at = &(*at)->next) {
    double seconds = access_seconds(d, begin, (*at)->sector);
    if (seconds < soonest) {
      soonest = seconds;
      best = at;
    }
  }
  return best;
}

/* Begin everything that begins up to `now`, which never decreases. */
static void drive_advance(struct drive *d, double now) {
  for (;;) {
    if (d->queue) {
      double begin = larger(d->free, d->queue->arrival);
      struct request **chosen, *request;
      if (begin > now)
        return;
      chosen = choose(d, begin);
      request = *chosen;
      *chosen = request->next;
      serve(d, begin, request);
    } else if (d->dirty && d->free <= now) {
      destage_run(d, larger(d->free, d->dirty_since));
    } else {
      return;
    }
  }
}

static int is_all_dirty(const struct drive *d, int64_t sector, int64_t count) {
  if (!d->dirty)
    return 0;
  while (count--)
    if (!d->is_dirty[sector++])
      return 0;
  return 1;
}

/* Return whether the cache takes the write. If so, it is answered as soon as it has been sent (immediate report). */
static int take_into_cache(struct drive *d, struct request *r) {
  int64_t sector;

  if (r->through || d->dirty + r->count > d->p.write_cache_sectors)
    return 0;
  if (!d->dirty)
    d->dirty_since = r->arrival;
  for (sector = r->sector; sector < r->sector + r->count; sector++)
    if (!d->is_dirty[sector])
      link_dirty(d, sector);
  return 1;
}

/* Take a request. Its end is known immediately, or after a later drive_advance. */
static void drive_submit(struct drive *d, struct request *r) {
  struct request **at = &d->queue;

  drive_advance(d, r->arrival);
  r->next = NULL;
  r->is_ended = r->is_write ? take_into_cache(d, r) : is_all_dirty(d, r->sector, r->count);
  if (r->is_ended) {
    r->end = r->arrival + electronics(d, r->count);
    return;
  }
  while (*at)
    at = &(*at)->next;
  *at = r;
  drive_advance(d, r->arrival);
}

/* Empty the write cache, and return the time when all of it is on the medium. */
static double drive_flush(struct drive *d, double now) {
  drive_advance(d, now);
  while (d->dirty)
    destage_run(d, larger(d->free, now));
  return larger(d->free, now);
}

#endif
