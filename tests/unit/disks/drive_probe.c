/* Plays requests on a drive's mechanics. Arguments: size=BYTES, the drive's parameters. Each line of input is
 *   r ARRIVAL SECTOR COUNT | w ARRIVAL SECTOR COUNT | t ARRIVAL SECTOR COUNT (write-through) | f TIME (flush) | l (power is lost)
 * with times in seconds. Prints, in the order of the input: the time of each answer, of the flush, or the sectors lost.
 * With loop=DEPTH each line is SECTOR COUNT, a read; so many are in flight, and each answer is followed by the next after
 * 0.1 ms. Prints begin and end of each. */

#include "mechanics.h"
#include "parameters.h"

#define MOST 20000

static void loop(struct drive *d, int depth) {
  static struct request requests[MOST];
  struct request *flying[64];
  long long sector, length;
  double now = 0;
  int i, n = 0, many = 0;

  for (;;) {
    while (many < depth && n < MOST && scanf("%lld %lld", &sector, &length) == 2) {
      requests[n].arrival = now;
      requests[n].sector = sector;
      requests[n].count = length;
      drive_submit(d, &requests[n]);
      flying[many++] = &requests[n++];
    }
    if (!many)
      break;
    /* Only the one that is served has an end; the drive begins the next when it is over. */
    for (;;) {
      int first = -1;
      for (i = 0; i < many; i++)
        if (flying[i]->is_ended && (first < 0 || flying[i]->end < flying[first]->end))
          first = i;
      if (first < 0) {
        drive_advance(d, d->free);
        continue;
      }
      now = larger(now, flying[first]->end + 0.0001);
      flying[first] = flying[--many];
      break;
    }
  }
  for (i = 0; i < n; i++)
    printf("%.9f %.9f\n", requests[i].arrival, requests[i].end + 0.0001);
}

int main(int count, char **words) {
  static struct request requests[MOST];
  static double others[MOST];
  struct parameters p;
  struct drive d;
  int64_t size = 0, sectors, sector, length;
  double at;
  char kind;
  int i, n = 0, depth = 0;

  memset(&p, 0, sizeof p);
  for (i = 1; i < count; i++) {
    char *value = strchr(words[i], '=');
    *value++ = 0;
    if (!strcmp(words[i], "size"))
      size = atoll(value);
    else if (!strcmp(words[i], "loop"))
      depth = atoi(value);
    else if (take_parameter(&p, words[i], value) < 0)
      return 2;
  }
  if (!is_whole(&p))
    return 3;
  sectors = size / SECTOR;
  drive_begin(&d, &p, sectors);
  drive_use_cache(&d, calloc(sectors, 4), calloc(sectors, 4), calloc(sectors + 1, 1), calloc(sectors, 4),
                  calloc(p.write_cache_sectors + 1, 4));
  if (depth) {
    loop(&d, depth);
    return 0;
  }
  for (; n < MOST && scanf(" %c", &kind) == 1; n++) {
    if (kind == 'l') {
      others[n] = (double)lose_cache(&d);
      continue;
    }
    if (scanf("%lf", &at) != 1)
      return 4;
    if (kind == 'f') {
      others[n] = drive_flush(&d, at);
      continue;
    }
    if (scanf("%lld %lld", (long long *)&sector, (long long *)&length) != 2)
      return 4;
    requests[n].arrival = at;
    requests[n].sector = sector;
    requests[n].count = length;
    requests[n].is_write = kind != 'r';
    requests[n].through = kind == 't';
    drive_submit(&d, &requests[n]);
  }
  drive_advance(&d, 1e9);
  for (i = 0; i < n; i++)
    printf("%.9f\n", requests[i].count ? requests[i].end : others[i]);
  return 0;
}
