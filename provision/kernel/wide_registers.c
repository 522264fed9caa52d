/*
 * Lets an embedded kernel before Linux 6.13 start on a processor with AMX, whose register set is larger than it knows.
 *
 * Such a kernel keeps 2,696 bytes of each of its processes' registers (HOST_FP_SIZE in arch/x86/um/user-offsets.c), all
 * up to AVX-512. To write them back, the computer's kernel wants the whole set, which is 11,008 bytes with AMX, and
 * answers EFAULT to less (xstateregs_set in arch/x86/kernel/fpu/regset.c): then the first process, init, dies.
 * Preloaded, this writes the whole set: what the embedded kernel kept, and behind it zeros. Nothing is lost by that: a
 * process may use AMX only after it asked for it (arch_prctl, ARCH_REQ_XCOMP_PERM), and an embedded kernel has no such
 * call. Linux 6.13 asks the computer for the size (host_fp_size in arch/x86/um/os-Linux/registers.c).
 *
 * Built by provision/host/setup.sh where the processor has AMX; preloaded by lab/machine/embedded.py.
 */
#define _GNU_SOURCE
#include <elf.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/* More than any processor has. */
#define MOST_BYTES 65536

static char whole[MOST_BYTES] __attribute__((aligned(64)));
static size_t whole_bytes;

static long ask(long request, pid_t pid, void *address, void *data)
{
	long word = 0, answer;
	int is_peek = request == PTRACE_PEEKTEXT || request == PTRACE_PEEKDATA || request == PTRACE_PEEKUSER;

	/* The call itself writes what it read to an address; the library's function returns it (ptrace(2), NOTES). */
	answer = syscall(SYS_ptrace, request, pid, address, is_peek ? &word : data);
	return is_peek && answer == 0 ? word : answer;
}

/* How large the register set of a process is; what was read for that is forgotten. */
static void find_size(pid_t pid)
{
	struct iovec all = { whole, sizeof(whole) };

	if (ask(PTRACE_GETREGSET, pid, (void *)NT_X86_XSTATE, &all) == 0)
		whole_bytes = all.iov_len;
	memset(whole, 0, sizeof(whole));
}

/* Only the kernel's main thread calls it. */
long ptrace(enum __ptrace_request request, ...)
{
	struct iovec all, *known;
	va_list rest;
	pid_t pid;
	void *address, *data;

	va_start(rest, request);
	pid = va_arg(rest, pid_t);
	address = va_arg(rest, void *);
	data = va_arg(rest, void *);
	va_end(rest);

	if (request != PTRACE_SETREGSET || (long)address != NT_X86_XSTATE)
		return ask(request, pid, address, data);
	if (!whole_bytes)
		find_size(pid);
	known = data;
	if (known->iov_len >= whole_bytes)
		return ask(request, pid, address, data);
	memcpy(whole, known->iov_base, known->iov_len);
	all = (struct iovec){ whole, whole_bytes };
	return ask(PTRACE_SETREGSET, pid, address, &all);
}
