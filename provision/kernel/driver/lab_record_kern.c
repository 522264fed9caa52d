// SPDX-License-Identifier: GPL-2.0
/* /dev/lab-record gives the record of the lab's drives, as lab_record.h describes it, and /dev/lab-record-data the data of
 * its writes, one after another. Reading fails with ENOSPC once something had to be left out.
 */

#include <linux/fs.h>
#include <linux/init.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "lab_record.h"

#define PIECE (16 * PAGE_SIZE)

static ssize_t give(int is_data, char __user *to, size_t length, loff_t *at)
{
	size_t most = min_t(size_t, length, PIECE);
	void *piece = kvmalloc(most, GFP_KERNEL);
	long got;

	if (!piece)
		return -ENOMEM;
	got = lab_record_is_full() ? -ENOSPC : lab_record_read(is_data, piece, most, *at);
	if (got > 0 && copy_to_user(to, piece, got))
		got = -EFAULT;
	kvfree(piece);
	if (got > 0)
		*at += got;
	return got;
}

static ssize_t records_read(struct file *file, char __user *to, size_t length, loff_t *at)
{
	return give(0, to, length, at);
}

static ssize_t data_read(struct file *file, char __user *to, size_t length, loff_t *at)
{
	return give(1, to, length, at);
}

static const struct file_operations records_operations = {
	.owner = THIS_MODULE,
	.read = records_read,
	.llseek = default_llseek,
};

static const struct file_operations data_operations = {
	.owner = THIS_MODULE,
	.read = data_read,
	.llseek = default_llseek,
};

static struct miscdevice devices[] = {
	{ .minor = MISC_DYNAMIC_MINOR, .name = "lab-record", .fops = &records_operations },
	{ .minor = MISC_DYNAMIC_MINOR, .name = "lab-record-data", .fops = &data_operations },
};

static int __init records_init(void)
{
	int failed = misc_register(&devices[0]);

	return failed ? failed : misc_register(&devices[1]);
}
device_initcall(records_init);
