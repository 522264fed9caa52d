/* SPDX-License-Identifier: GPL-2.0 */
#ifndef LAB_CLIENT_H
#define LAB_CLIENT_H

/* On descriptors of the computer; whoever calls waits, and the machine with them. Negative: an error number. */
long lab_client_read(int fd, void *to, unsigned long length);
long lab_client_write(int fd, const void *from, unsigned long length);
int lab_client_has_input(int fd);

#endif
