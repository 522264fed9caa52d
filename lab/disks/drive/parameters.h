/* A drive's parameters as words of a command line; see plugin.c for an example. */

#ifndef PARAMETERS_H
#define PARAMETERS_H

#include <stdio.h>

#include "mechanics.h"

#define LONGEST_TIME_SECONDS 1e6
#define MOST_BUFFER_SECTORS (1 << 21)
#define MOST_SHARE 1e6
#define MOST_RPM 1e6

static int take_zones(struct parameters *p, const char *value) {
  int used;

  for (p->zone_count = 0; p->zone_count < MAX_ZONES; value += used + 1) {
    struct zone *zone = &p->zones[p->zone_count];
    if (sscanf(value, "%lf:%d%n", &zone->share, &zone->sectors_per_track, &used) != 2)
      return -1;
    p->zone_count++;
    if (value[used] != ',')
      return value[used] ? -1 : 0;
  }
  return -1;
}

static int take_milliseconds(const char *value, double *seconds) {
  *seconds = atof(value) / 1000;
  return 0;
}

static int take_seek(const char *value, double *a, double *b, double *until) {
  double none;
  int found = sscanf(value, "%lf,%lf,%lf", a, b, until ? until : &none);

  *a /= 1000;
  *b /= 1000;
  return found == (until ? 3 : 2) ? 0 : -1;
}

/* One key=value; -1 for what is no parameter of a drive. Times are in milliseconds. */
static int take_parameter(struct parameters *p, const char *key, const char *value) {
  if (!strcmp(key, "rpm"))
    return p->rpm = atof(value), 0;
  if (!strcmp(key, "cylinders"))
    return p->cylinders = atof(value), 0;
  if (!strcmp(key, "surfaces"))
    return p->surfaces = atoi(value), 0;
  if (!strcmp(key, "zones"))
    return take_zones(p, value);
  if (!strcmp(key, "seek_short"))
    return take_seek(value, &p->seek_short_a, &p->seek_short_b, &p->seek_short_cylinders);
  if (!strcmp(key, "seek_long"))
    return take_seek(value, &p->seek_long_a, &p->seek_long_b, NULL);
  if (!strcmp(key, "track_switch"))
    return take_milliseconds(value, &p->track_switch);
  if (!strcmp(key, "overhead"))
    return take_milliseconds(value, &p->overhead);
  if (!strcmp(key, "interface"))
    return p->interface_bytes_per_second = atof(value), 0;
  if (!strcmp(key, "queue"))
    return p->queue_depth = atoi(value), 0;
  if (!strcmp(key, "read_ahead"))
    return p->read_ahead_sectors = atoll(value) / SECTOR, 0;
  if (!strcmp(key, "write_cache"))
    return p->write_cache_sectors = atoll(value) / SECTOR, 0;
  return -1;
}

static int is_time(double seconds) { return seconds >= 0 && seconds <= LONGEST_TIME_SECONDS; }

/* Whether all is given, and the model can play it: what is no number, or has no bound, would never come to its end. */
static int is_whole(const struct parameters *p) {
  int i;

  if (!is_time(p->overhead) || !is_time(p->track_switch) || !is_time(60 / p->rpm) || !is_time(p->seek_short_a) ||
      !is_time(p->seek_short_a + p->seek_short_b * sqrt(p->seek_short_cylinders)) || !is_time(seek_seconds(p, 1)) ||
      !is_time(p->seek_long_a + p->seek_long_b * p->seek_short_cylinders) || !is_time(seek_seconds(p, p->cylinders)))
    return 0;
  if (p->read_ahead_sectors < 0 || p->read_ahead_sectors > MOST_BUFFER_SECTORS || p->write_cache_sectors < 0 ||
      p->write_cache_sectors > MOST_BUFFER_SECTORS)
    return 0;
  for (i = 0; i < p->zone_count; i++)
    if (!(p->zones[i].share > 0 && p->zones[i].share <= MOST_SHARE && p->zones[i].sectors_per_track > 0))
      return 0;
  return p->rpm > 0 && p->rpm <= MOST_RPM && p->cylinders > 0 && p->surfaces > 0 && p->zone_count > 0 &&
         p->queue_depth > 0 && p->interface_bytes_per_second >= 1;
}

#endif
