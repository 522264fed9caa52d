// SPDX-License-Identifier: GPL-2.0
/* /dev/lab-client: the line to the client, for virtual time.
 *
 * Whoever reads it stops the whole machine until the client has said something, and its clock with it: to the machine an
 * answer takes no time, however long the client thought. So what the machine does depends on what it was told, never on
 * when. Only whether there is input by now (poll) does; the agent asks that while it works, to be stopped.
 *
 * Command line: lab_client=READ,WRITE, two descriptors of pipes that this process was started with.
 */

#include <linux/init.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/poll.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <init.h>

#include "lab_client.h"

static int read_fd = -1, write_fd = -1;
static DEFINE_MUTEX(reading);
static DEFINE_MUTEX(writing);

static int __init note_descriptors(char *text)
{
	return sscanf(text, "%d,%d", &read_fd, &write_fd) == 2;
}
__setup("lab_client=", note_descriptors);

static ssize_t client_read(struct file *file, char __user *to, size_t length, loff_t *at)
{
	size_t most = min_t(size_t, length, 16 * PAGE_SIZE);
	void *piece = kvmalloc(most, GFP_KERNEL);
	long got;

	if (!piece)
		return -ENOMEM;
	mutex_lock(&reading);
	got = lab_client_read(read_fd, piece, most);
	mutex_unlock(&reading);
	if (got > 0 && copy_to_user(to, piece, got))
		got = -EFAULT;
	kvfree(piece);
	return got;
}

static ssize_t client_write(struct file *file, const char __user *from, size_t length, loff_t *at)
{
	size_t most = min_t(size_t, length, 16 * PAGE_SIZE);
	void *piece = kvmalloc(most, GFP_KERNEL);
	long done;

	if (!piece)
		return -ENOMEM;
	mutex_lock(&writing);
	done = copy_from_user(piece, from, most) ? -EFAULT : lab_client_write(write_fd, piece, most);
	mutex_unlock(&writing);
	kvfree(piece);
	return done;
}

static __poll_t client_poll(struct file *file, struct poll_table_struct *table)
{
	return EPOLLOUT | EPOLLWRNORM | (lab_client_has_input(read_fd) ? EPOLLIN | EPOLLRDNORM : 0);
}

static const struct file_operations client_operations = {
	.owner = THIS_MODULE,
	.read = client_read,
	.write = client_write,
	.poll = client_poll,
};

static struct miscdevice client_device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "lab-client",
	.fops = &client_operations,
};

static int __init client_init(void)
{
	return write_fd < 0 ? 0 : misc_register(&client_device);
}
device_initcall(client_init);
