/* A drive's parameters as words of a command line; see plugin.c for an example. */

#ifndef PARAMETERS_H
#define PARAMETERS_H

#include <stdio.h>

#include "mechanics.h"

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

static int is_whole(const struct parameters *p) {
  return p->rpm > 0 && p->cylinders > 0 && p->surfaces > 0 && p->zone_count > 0 && p->queue_depth > 0 &&
         p->interface_bytes_per_second > 0;
}

#endif
