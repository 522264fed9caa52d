// SPDX-License-Identifier: GPL-2.0
/* Emulated drives inside the embedded kernel, for virtual time: their waits are events of the machine's own clock, and
 * between them nothing of the computer is waited for.
 *
 * Drives come and go by lines that are written to /dev/lab-drives:
 *
 *   add N BYTES WORDS     makes /dev/driveN; for WORDS see lab_drive_user.c
 *   remove N              takes it away, with its data
 *   pull N, plug N        it vanishes while in use, and comes back with what was on its medium
 *   pace N NANOSECONDS    so long for each request from now on; 0: its own pace
 *   power N               its power fails for an instant
 *   record N              what it holds now is its base, and each request is recorded (lab_record.h)
 *   still N               no longer; the base stays
 *   restore N LIST        still, and it holds its base and over that the listed records
 *   mark NUMBER           a mark in the record
 *   forget                the record is empty again
 *
 * The record is read from /dev/lab-record and /dev/lab-record-data (lab_record_kern.c).
 *
 * What a drive holds is told by its attribute content_sum, which takes no time of the machine: the SHA-256 of its size and
 * of each page that holds anything but zeros, behind where it begins (64-bit numbers of bytes, least first).
 *
 * Disks on files of the computer are given on the command line as to User Mode Linux's own driver, which this one stands
 * in for: ubdN=PATH,,SERIAL makes /dev/ubda and so on. Each answers as FILE_WORDS say, about as the first SATA SSDs did: where data
 * took no time, a program that moves as much as it can would have the computer move it for hours.
 */

#include <crypto/hash.h>
#include <linux/blk-mq.h>
#include <linux/blkdev.h>
#include <linux/hrtimer.h>
#include <linux/init.h>
#include <linux/list.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/version.h>
#include <init.h>
#include <os.h>

#include "lab_drive.h"
#include "lab_record.h"

#define UBD_MAJOR_NUMBER 98
#define MINORS 16
#define MOST_UBD 16
#define FILE_WORDS "service=100000 rate=250000000"
/* The longest request, so that every kernel cuts the same ones: what the oldest of them, 6.1, gives a disk (BLK_DEF_MAX_SECTORS). */
#define MOST_SECTORS 2560
#define LONGEST_LINE 65536

struct lab_disk {
	struct list_head list;
	unsigned int number;
	bool is_file, is_pulled, is_recorded;
	struct lab_drive *drive;
	struct request *requests[LAB_DRIVE_TAGS];
	long records[LAB_DRIVE_TAGS]; /* -1: of a request that is not recorded */
	const char *serial;
	struct blk_mq_tag_set tags;
	struct gendisk *disk;
	spinlock_t lock;
	struct hrtimer timer;
	sector_t sectors;
};

static LIST_HEAD(disks);
static DEFINE_MUTEX(disks_lock);
static int drive_major;

/* Requests */

static blk_status_t move_data(struct lab_disk *disk, struct request *request, bool to_cache)
{
	loff_t at = blk_rq_pos(request) << SECTOR_SHIFT;
	struct req_iterator iter;
	struct bio_vec piece;
	int failed = 0;

	switch (req_op(request)) {
	case REQ_OP_READ:
	case REQ_OP_WRITE:
		rq_for_each_segment(piece, request, iter) {
			void *data = bvec_virt(&piece);

			if (req_op(request) == REQ_OP_READ)
				failed |= lab_drive_read(disk->drive, data, piece.bv_len, at);
			else if (to_cache)
				lab_drive_write_cache(disk->drive, data, piece.bv_len, at);
			else
				failed |= lab_drive_write(disk->drive, data, piece.bv_len, at);
			at += piece.bv_len;
		}
		break;
	case REQ_OP_DISCARD:
	case REQ_OP_WRITE_ZEROES:
		failed = lab_drive_discard(disk->drive, blk_rq_bytes(request), at);
		break;
	default:
		break;
	}
	return failed ? BLK_STS_IOERR : BLK_STS_OK;
}

/* As it comes, with its data: who sends it may change them as soon as it has ended. */
static long record_of(struct lab_disk *disk, struct request *request, enum lab_drive_op op)
{
	struct req_iterator iter;
	struct bio_vec piece;
	long record;

	if (!disk->is_recorded || op == LAB_READ)
		return -1;
	/* A flush has no place. */
	record = lab_record_request(disk->number, op, op == LAB_FLUSH ? 0 : blk_rq_pos(request) << SECTOR_SHIFT,
				    blk_rq_bytes(request), !!(request->cmd_flags & REQ_FUA));
	if (op == LAB_WRITE)
		rq_for_each_segment(piece, request, iter)
			lab_record_data(record, bvec_virt(&piece), piece.bv_len);
	return record;
}

static void arm(struct lab_disk *disk)
{
	long long next = lab_drive_next(disk->drive);

	if (next != LAB_DRIVE_NEVER)
		hrtimer_start(&disk->timer, ns_to_ktime(next), HRTIMER_MODE_ABS_HARD);
}

static enum hrtimer_restart on_timer(struct hrtimer *timer)
{
	struct lab_disk *disk = container_of(timer, struct lab_disk, timer);
	unsigned long flags;
	int tag;

	spin_lock_irqsave(&disk->lock, flags);
	while ((tag = lab_drive_ended(disk->drive, ktime_get_ns())) >= 0) {
		struct request *request = disk->requests[tag];
		blk_status_t status = BLK_STS_OK;

		if (!lab_drive_was_cached(disk->drive, tag))
			status = move_data(disk, request, false);
		lab_record_end(disk->records[tag], status != BLK_STS_OK);
		/* Whoever is told may ask for more at once. */
		spin_unlock_irqrestore(&disk->lock, flags);
		blk_mq_end_request(request, status);
		spin_lock_irqsave(&disk->lock, flags);
	}
	arm(disk);
	spin_unlock_irqrestore(&disk->lock, flags);
	return HRTIMER_NORESTART;
}

static enum lab_drive_op op_of(struct request *request)
{
	switch (req_op(request)) {
	case REQ_OP_READ:
		return LAB_READ;
	case REQ_OP_WRITE:
		return LAB_WRITE;
	case REQ_OP_FLUSH:
		return LAB_FLUSH;
	default:
		return LAB_DISCARD;
	}
}

static blk_status_t queue_request(struct blk_mq_hw_ctx *context, const struct blk_mq_queue_data *data)
{
	struct lab_disk *disk = context->queue->queuedata;
	struct request *request = data->rq;
	unsigned long flags;

	blk_mq_start_request(request);
	spin_lock_irqsave(&disk->lock, flags);
	if (disk->is_pulled) {
		spin_unlock_irqrestore(&disk->lock, flags);
		return BLK_STS_IOERR;
	}
	disk->requests[request->tag] = request;
	disk->records[request->tag] = record_of(disk, request, op_of(request));
	if (lab_drive_take(disk->drive, request->tag, op_of(request), blk_rq_pos(request) << SECTOR_SHIFT,
			   blk_rq_bytes(request), !!(request->cmd_flags & REQ_FUA), ktime_get_ns()))
		move_data(disk, request, true);
	arm(disk);
	spin_unlock_irqrestore(&disk->lock, flags);
	return BLK_STS_OK;
}

static const struct blk_mq_ops queue_operations = {
	.queue_rq = queue_request,
};

/* Disks */

static void free_disk(struct lab_disk *disk)
{
	if (disk->drive)
		lab_drive_close(disk->drive);
	kfree(disk->serial);
	kfree(disk);
}

/* Nobody has it open any more. */
static void on_last_use(struct gendisk *disk)
{
	free_disk(disk->private_data);
}

static const struct block_device_operations disk_operations = {
	.owner = THIS_MODULE,
	.free_disk = on_last_use,
};

static ssize_t serial_show(struct device *device, struct device_attribute *attribute, char *text)
{
	struct lab_disk *disk = dev_to_disk(device)->private_data;

	return sysfs_emit(text, "%s", disk->serial ? disk->serial : "");
}
static DEVICE_ATTR_RO(serial);

/* As whoever reads it now would get it: with what only the write cache holds. */
static int add_content(struct lab_disk *disk, struct shash_desc *sum, char *page)
{
	u64 at, end = (u64)disk->sectors << SECTOR_SHIFT;
	__le64 number = cpu_to_le64(end);
	int failed = crypto_shash_update(sum, (u8 *)&number, sizeof(number));
	unsigned long flags;

	for (at = 0; at < end && !failed; at += PAGE_SIZE) {
		unsigned int length = min_t(u64, PAGE_SIZE, end - at);
		bool blank;

		spin_lock_irqsave(&disk->lock, flags);
		blank = lab_drive_is_untouched(disk->drive, at);
		if (!blank)
			failed = lab_drive_read(disk->drive, page, length, at);
		spin_unlock_irqrestore(&disk->lock, flags);
		if (failed)
			return -EIO;
		if (blank || !memchr_inv(page, 0, length))
			continue;
		number = cpu_to_le64(at);
		failed = crypto_shash_update(sum, (u8 *)&number, sizeof(number));
		if (!failed)
			failed = crypto_shash_update(sum, page, length);
	}
	return failed;
}

static ssize_t content_sum_show(struct device *device, struct device_attribute *attribute, char *text)
{
	struct crypto_shash *kind = crypto_alloc_shash("sha256", 0, 0);
	char *page = (char *)__get_free_page(GFP_KERNEL);
	u8 digest[32];
	int failed;

	if (IS_ERR(kind)) {
		failed = PTR_ERR(kind);
	} else {
		SHASH_DESC_ON_STACK(sum, kind);

		sum->tfm = kind;
		failed = page ? crypto_shash_init(sum) : -ENOMEM;
		if (!failed)
			failed = add_content(dev_to_disk(device)->private_data, sum, page);
		if (!failed)
			failed = crypto_shash_final(sum, digest);
		crypto_free_shash(kind);
	}
	free_page((unsigned long)page);
	return failed ? failed : sysfs_emit(text, "%*phN\n", (int)sizeof(digest), digest);
}
static DEVICE_ATTR_RO(content_sum);

static struct attribute *disk_attributes[] = { &dev_attr_serial.attr, &dev_attr_content_sum.attr, NULL };
static const struct attribute_group disk_group = { .attrs = disk_attributes };
static const struct attribute_group *disk_groups[] = { &disk_group, NULL };

static int make_queue(struct lab_disk *disk)
{
	bool flush = lab_drive_takes_flush(disk->drive);
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 11, 0)
	struct queue_limits limits = {
		.logical_block_size = SECTOR_SIZE,
		.physical_block_size = SECTOR_SIZE,
		.max_hw_sectors = MOST_SECTORS,
		.max_segments = USHRT_MAX,
		.max_segment_size = UINT_MAX,
		.max_hw_discard_sectors = UINT_MAX >> SECTOR_SHIFT,
		.max_write_zeroes_sectors = UINT_MAX >> SECTOR_SHIFT,
		.discard_granularity = SECTOR_SIZE,
		.features = flush ? BLK_FEAT_WRITE_CACHE | BLK_FEAT_FUA : 0,
	};

	disk->disk = blk_mq_alloc_disk(&disk->tags, &limits, disk);
	return PTR_ERR_OR_ZERO(disk->disk);
#else
	struct request_queue *queue;

	disk->disk = blk_mq_alloc_disk(&disk->tags, disk);
	if (IS_ERR(disk->disk))
		return PTR_ERR(disk->disk);
	queue = disk->disk->queue;
	blk_queue_flag_set(QUEUE_FLAG_NONROT, queue);
	blk_queue_logical_block_size(queue, SECTOR_SIZE);
	blk_queue_physical_block_size(queue, SECTOR_SIZE);
	blk_queue_max_hw_sectors(queue, MOST_SECTORS);
	blk_queue_max_segments(queue, USHRT_MAX);
	blk_queue_max_segment_size(queue, UINT_MAX);
	blk_queue_max_discard_sectors(queue, UINT_MAX >> SECTOR_SHIFT);
	blk_queue_max_write_zeroes_sectors(queue, UINT_MAX >> SECTOR_SHIFT);
	queue->limits.discard_granularity = SECTOR_SIZE;
	blk_queue_write_cache(queue, flush, flush);
	return 0;
#endif
}

/* `file`: of a disk on a file of the computer; null for a drive. */
static int make_disk(unsigned int number, long long bytes, const char *words, const char *file, const char *serial)
{
	struct lab_disk *disk = kzalloc(sizeof(*disk), GFP_KERNEL);
	const char *reason;
	int failed = -ENOMEM;

	if (!disk)
		return -ENOMEM;
	disk->number = number;
	disk->is_file = file;
	disk->serial = serial;
	disk->sectors = bytes >> SECTOR_SHIFT;
	spin_lock_init(&disk->lock);
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 13, 0)
	hrtimer_setup(&disk->timer, on_timer, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_HARD);
#else
	hrtimer_init(&disk->timer, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_HARD);
	disk->timer.function = on_timer;
#endif
	disk->drive = lab_drive_open(words, file, bytes, &reason);
	if (!disk->drive) {
		pr_err("lab-drive %u: %s: '%s'\n", number, reason, words);
		failed = -EINVAL;
		goto no_drive;
	}
	disk->tags.ops = &queue_operations;
	disk->tags.nr_hw_queues = 1;
	disk->tags.queue_depth = LAB_DRIVE_TAGS;
	disk->tags.numa_node = NUMA_NO_NODE;
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 14, 0)
	disk->tags.flags = BLK_MQ_F_SHOULD_MERGE;
#endif
	failed = blk_mq_alloc_tag_set(&disk->tags);
	if (failed)
		goto no_drive;
	failed = make_queue(disk);
	if (failed)
		goto no_tags;
	disk->disk->major = file ? UBD_MAJOR_NUMBER : drive_major;
	disk->disk->first_minor = number * MINORS;
	disk->disk->minors = MINORS;
	disk->disk->fops = &disk_operations;
	disk->disk->private_data = disk;
	if (file)
		snprintf(disk->disk->disk_name, DISK_NAME_LEN, "ubd%c", 'a' + number);
	else
		snprintf(disk->disk->disk_name, DISK_NAME_LEN, "drive%u", number);
	set_capacity(disk->disk, disk->sectors);
	failed = device_add_disk(NULL, disk->disk, disk_groups);
	if (failed)
		goto no_disk;
	list_add_tail(&disk->list, &disks);
	return 0;

no_disk:
	put_disk(disk->disk);
no_tags:
	blk_mq_free_tag_set(&disk->tags);
no_drive:
	disk->serial = NULL;
	free_disk(disk);
	return failed;
}

static struct lab_disk *find_disk(unsigned int number)
{
	struct lab_disk *disk;

	list_for_each_entry(disk, &disks, list)
		if (!disk->is_file && disk->number == number)
			return disk;
	return NULL;
}

/* All that is under way fails, and so does all that comes, until it is plugged in again. */
static void pull(struct lab_disk *disk)
{
	unsigned long flags;
	int tag;

	spin_lock_irqsave(&disk->lock, flags);
	disk->is_pulled = true;
	lab_drive_lose_cache(disk->drive, ktime_get_ns());
	while ((tag = lab_drive_drop(disk->drive)) >= 0) {
		struct request *request = disk->requests[tag];

		lab_record_end(disk->records[tag], true);
		spin_unlock_irqrestore(&disk->lock, flags);
		blk_mq_end_request(request, BLK_STS_IOERR);
		spin_lock_irqsave(&disk->lock, flags);
	}
	spin_unlock_irqrestore(&disk->lock, flags);
}

static int remove_disk(struct lab_disk *disk)
{
	if (disk_openers(disk->disk))
		return -EBUSY;
	list_del(&disk->list);
	del_gendisk(disk->disk);
	hrtimer_cancel(&disk->timer);
	blk_mq_free_tag_set(&disk->tags);
	/* Whoever opened it meanwhile holds it until that is closed. */
	put_disk(disk->disk);
	return 0;
}

/* What became of its requests so far is recorded; the list is of those, or null for none: it only stands still. */
static int record(struct lab_disk *disk, const char *list, bool is_on)
{
	const char *wrong = NULL;
	unsigned long flags;

	spin_lock_irqsave(&disk->lock, flags);
	disk->is_recorded = false;
	if (is_on)
		wrong = lab_drive_set_base(disk->drive);
	else if (list)
		wrong = lab_drive_restore(disk->drive, disk->number, list);
	disk->is_recorded = is_on && !wrong;
	spin_unlock_irqrestore(&disk->lock, flags);
	if (wrong)
		pr_err("lab-drive %u: %s\n", disk->number, wrong);
	return wrong ? -EINVAL : 0;
}

static int change(struct lab_disk *disk, const char *verb, long long value)
{
	unsigned long flags;
	int failed = 0;

	spin_lock_irqsave(&disk->lock, flags);
	if (!strcmp(verb, "plug"))
		disk->is_pulled = false;
	else if (!strcmp(verb, "power"))
		lab_drive_lose_cache(disk->drive, ktime_get_ns());
	else if (!strcmp(verb, "pace"))
		lab_drive_pace(disk->drive, value);
	else
		failed = -EINVAL;
	spin_unlock_irqrestore(&disk->lock, flags);
	return failed;
}

/* What is under way ends unrecorded: its record is gone. */
static void forget(void)
{
	struct lab_disk *disk;
	unsigned long flags;
	int tag;

	list_for_each_entry(disk, &disks, list) {
		spin_lock_irqsave(&disk->lock, flags);
		for (tag = 0; tag < LAB_DRIVE_TAGS; tag++)
			disk->records[tag] = -1;
		spin_unlock_irqrestore(&disk->lock, flags);
	}
	lab_record_clear();
}

/* A line about the record as a whole; 1 if it is none. */
static int obey_of_all(const char *verb, const char *rest)
{
	unsigned int value;

	if (!strcmp(verb, "forget")) {
		if (rest)
			return -EINVAL;
		forget();
		return 0;
	}
	if (strcmp(verb, "mark"))
		return 1;
	if (!rest || kstrtouint(rest, 10, &value))
		return -EINVAL;
	return lab_record_mark(value) < 0 ? -ENOSPC : 0;
}

/* One line, taken apart. What is left over where nothing may be is an error, and so is a number out of its range. */
static int obey(char *line)
{
	char *verb = strsep(&line, " "), *word;
	unsigned int number;
	long long value = 0;
	struct lab_disk *disk;
	bool has_value = !strcmp(verb, "add") || !strcmp(verb, "pace");
	int done = obey_of_all(verb, line);

	if (done <= 0)
		return done;
	word = strsep(&line, " ");
	if (!word || kstrtouint(word, 10, &number) || number >= (1 << MINORBITS) / MINORS)
		return -EINVAL;
	word = has_value ? strsep(&line, " ") : NULL;
	if (has_value && (!word || kstrtoll(word, 10, &value)))
		return -EINVAL;
	disk = find_disk(number);
	if (!strcmp(verb, "add")) {
		if (disk)
			return -EEXIST;
		if (value < SECTOR_SIZE || value % SECTOR_SIZE || !line)
			return -EINVAL;
		return make_disk(number, value, line, NULL, NULL);
	}
	if (!strcmp(verb, "restore"))
		return disk ? record(disk, line ? line : "", false) : -ENODEV;
	if (line || value < 0 || value > LAB_DRIVE_LONGEST)
		return -EINVAL;
	if (!disk)
		return -ENODEV;
	if (!strcmp(verb, "remove"))
		return remove_disk(disk);
	if (!strcmp(verb, "record") || !strcmp(verb, "still"))
		return record(disk, NULL, !strcmp(verb, "record"));
	if (!strcmp(verb, "pull")) {
		pull(disk);
		return 0;
	}
	return change(disk, verb, value);
}

static ssize_t drives_write(struct file *file, const char __user *text, size_t length, loff_t *at)
{
	char *line;
	int failed;

	if (length > LONGEST_LINE)
		return -E2BIG;
	line = memdup_user_nul(text, length);
	if (IS_ERR(line))
		return PTR_ERR(line);
	mutex_lock(&disks_lock);
	/* Text behind a zero byte would be lost without a word. */
	failed = strlen(line) == length ? obey(strim(line)) : -EINVAL;
	mutex_unlock(&disks_lock);
	kfree(line);
	return failed ? failed : length;
}

static const struct file_operations drives_operations = {
	.owner = THIS_MODULE,
	.write = drives_write,
};

static struct miscdevice drives_device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "lab-drives",
	.fops = &drives_operations,
};

/* Disks on files, from the command line */

static char *file_disks[MOST_UBD];

static int __init note_file_disk(char *text)
{
	int number = *text - '0';

	if (number >= 0 && number <= 9 && text[1] >= '0' && text[1] <= '9')
		number = number * 10 + *++text - '0';
	if (number < 0 || number >= MOST_UBD || text[1] != '=')
		return 0;
	file_disks[number] = text + 2;
	return 1;
}
__setup("ubd", note_file_disk);

static int __init make_file_disk(unsigned int number, char *text)
{
	char *path = strsep(&text, ","), *serial;
	unsigned long long bytes;
	int failed;

	strsep(&text, ",");
	failed = os_file_size(path, &bytes);
	if (failed)
		return failed;
	serial = kstrdup(text ? text : "", GFP_KERNEL);
	failed = serial ? make_disk(number, bytes, FILE_WORDS, path, serial) : -ENOMEM;
	if (failed)
		kfree(serial);
	return failed;
}

static int __init lab_drives_init(void)
{
	int number, failed;

	drive_major = register_blkdev(0, "drive");
	if (drive_major < 0)
		return drive_major;
	failed = register_blkdev(UBD_MAJOR_NUMBER, "ubd");
	if (failed < 0)
		return failed;
	for (number = 0; number < MOST_UBD; number++) {
		char *text = file_disks[number] ? kstrdup(file_disks[number], GFP_KERNEL) : NULL;

		if (text && (failed = make_file_disk(number, text)))
			pr_err("ubd%d: %s cannot be used: %d\n", number, file_disks[number], failed);
		kfree(text);
	}
	return misc_register(&drives_device);
}
device_initcall(lab_drives_init);
