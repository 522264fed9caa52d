/* The mechanics of a disk drive, on a line of time of its own: no clock, no threads, no I/O in here.
 *
 * After Ruemmler and Wilkes, "An introduction to disk drive modeling" (IEEE Computer, 1994): seek time by distance
 * (square root for short, straight line for long), rotation, zones, skew, read-ahead and immediate report.
 * Times are seconds; positions are sectors of 512 bytes, or turns of the platter where the name says so.
 */

#ifndef MECHANICS_H
#define MECHANICS_H

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define SECTOR 512
#define MAX_ZONES 32
/* A request that has waited so long goes first, however far away it is. */
#define LONGEST_WAIT_SECONDS 2.0
/* The longest run that leaves the write cache in one go, and how many of the oldest sectors may begin one. */
#define DESTAGE_SECTORS 256
#define DESTAGE_CANDIDATES 64
#define HAIR_TURNS 1e-6

struct zone {
  double share; /* of the drive's cylinders, from the outside inwards */
  int sectors_per_track;
};

/* Parameters as in data sheets; seek distances in the real drive's cylinders. */
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
  int is_ended; /* whether `end`, when it is answered, is known */
  double end;
  struct request *next;
};

struct place {
  int64_t cylinder, in_track;
  int surface, per_track;
};

/* A lab disk is far smaller than the drive: fewer cylinders, spread over the same stroke. */
struct drive {
  struct parameters p;
  double turn;
  int64_t cylinders;
  double stretch; /* cylinders of the real drive for each of this one */
  int64_t first_sector[MAX_ZONES], first_cylinder[MAX_ZONES];
  double cylinder_switch;

  struct request *queue; /* in order of arrival */
  double free;           /* when the mechanics have done what they are at */
  int64_t cylinder;      /* where the head is */
  int surface;
  int64_t stream_sector; /* where read-ahead goes on after a read, -1: nowhere; and when the head was there */
  double stream_since;

  /* The volatile write cache: a list of sectors, oldest first. Links are sector + 1; 0 is the end. */
  uint32_t *older, *newer;
  unsigned char *is_dirty;
  uint32_t *slot;       /* where in the cache a dirty sector's data are */
  uint32_t *free_slots; /* those that hold nothing; so many as the cache has room */
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

/* Without these arrays there is no write cache. A place for each sector in all but the last, one more in `is_dirty`, and
 * write_cache_sectors in the last; all of it zero. */
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

/* Where a sector begins, in turns. Tracks are skewed by just the time that a switch to them takes. */
static double angle(const struct drive *d, const struct place *at) {
  double tracks = (double)(d->p.surfaces - 1) * at->cylinder + at->surface;
  double turns = (double)at->in_track / at->per_track +
                 (d->p.track_switch * tracks + d->cylinder_switch * at->cylinder) / d->turn;
  return turns - floor(turns);
}

/* Seconds from the first sector under the head to the end of the last, and the place of the last. */
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

/* Seconds from `begin` until the head is at the sector: the move, then the rest of the turn. */
static double access_seconds(const struct drive *d, double begin, int64_t sector) {
  struct place at = locate(d, sector);
  double distance = fabs((double)(at.cylinder - d->cylinder)), move = 0, rest;

  if (distance > 0)
    move = seek_seconds(&d->p, distance * d->stretch);
  else if (at.surface != d->surface)
    move = d->p.track_switch;
  /* A hair's breadth behind the sector is on it: rounding must not cost a turn. */
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

/* Time of a request that needs no mechanics. */
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

/* The cache forgets a range: it is on the medium, or discarded. */
static void drop_dirty(struct drive *d, int64_t sector, int64_t count) {
  int64_t end = sector + count;

  for (; d->dirty && sector < end; sector++)
    if (d->is_dirty[sector])
      unlink_dirty(d, sector);
}

/* A range is about to be written past the cache: until that is done, what was answered before is what the medium has. */
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

/* The power fails: all that was answered early is gone. Returns how many sectors. */
static int64_t lose_cache(struct drive *d) {
  int64_t lost = d->dirty;

  while (d->oldest)
    unlink_dirty(d, d->oldest - 1);
  return lost;
}

/* Write one run of the cache to the medium: of the oldest sectors, the one that is soonest under the head. */
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

/* Whether the read goes on where the last one ended: then the drive has been reading ahead into its buffer. */
static int serve_from_stream(struct drive *d, double begin, struct request *r) {
  int64_t ahead = d->p.read_ahead_sectors;
  struct place last;
  double passed, rest;

  if (d->stream_sector != r->sector || r->count > ahead)
    return 0;
  passed = d->stream_since + transfer(d, r->sector, r->count, &last);
  if (d->stream_since + transfer(d, r->sector, ahead, &last) < begin) {
    /* The buffer was full and the head had left off: all is there, and it goes on reading behind the buffer. */
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
  /* The overhead of a request that waits passes while the one before it is served. */
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

/* Shortest access time first among the commands that the drive has; the oldest if it has waited long. */
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

/* Begin everything that begins up to `now`; times never go back. */
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

/* Whether the cache takes the write: then it is answered as soon as it has been sent (immediate report). */
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

/* Take a request. Its end is known at once, or after a later drive_advance. */
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

/* Empty the write cache; returns when all of it is on the medium. */
static double drive_flush(struct drive *d, double now) {
  drive_advance(d, now);
  while (d->dirty)
    destage_run(d, larger(d->free, now));
  return larger(d->free, now);
}

#endif
