// SPDX-License-Identifier: GPL-2.0
/* Copying and filling by the processor's own string instructions. The kernel of a computer chooses them as it starts; User
 * Mode Linux keeps to loops, which take three times as long for a page. It lets its functions be replaced (they are weak).
 */

#include <linux/export.h>
#include <linux/string.h>

#undef memcpy
#undef memset

/* Below this, the instructions cost more than they save. */
#define LEAST 512

void *__memcpy(void *to, const void *from, size_t length);
void *__memset(void *to, int value, size_t length);

void *memcpy(void *to, const void *from, size_t length)
{
	void *next = to;

	if (length < LEAST)
		return __memcpy(to, from, length);
	asm volatile("rep movsb" : "+D"(next), "+S"(from), "+c"(length) : : "memory");
	return to;
}

void *memset(void *to, int value, size_t length)
{
	void *next = to;

	if (length < LEAST)
		return __memset(to, value, length);
	asm volatile("rep stosb" : "+D"(next), "+c"(length) : "a"(value) : "memory");
	return to;
}
