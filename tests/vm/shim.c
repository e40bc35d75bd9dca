/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * shim.so - make the kernel's snapshot interface fail where a test wants it to.
 *
 * Loaded into the real s2disk or resume with LD_PRELOAD. It counts what the program asks of the
 * kernel, by the names below, and acts on the nth such call:
 *
 *   FREEZE UNFREEZE CREATE_IMAGE ATOMIC_RESTORE FREE FREE_SWAP_PAGES S2RAM SET_SWAP_AREA
 *   GET_IMAGE_SIZE PLATFORM_SUPPORT POWER_OFF PREF_IMAGE_SIZE AVAIL_SWAP_SIZE ALLOC_SWAP_PAGE
 *   SNAPREAD (read or readv of /dev/snapshot)   SNAPWRITE (write or writev to it)
 *   READ WRITE (block devices; an asynchronous batch is one WRITE)   SYNC (fsync, fdatasync, asynchronous ones)
 *   REBOOT   ALLOC (malloc and its kin)   MMAP
 *
 *   SHIM_FAIL=NAME:N:ERROR    the Nth call of NAME fails with ERROR (ENOMEM, EIO, ... or a number);
 *                             N may be "*": every call
 *   SHIM_KILL=NAME:N          SIGKILL to itself at the Nth call
 *   SHIM_CLEAR_FAIL=N         in the restored system, the first N writes fail with EIO
 *   SHIM_STAY=1               never switch off or reboot: both fail with EBUSY
 *   SHIM_TRAP=1               while frozen, report allocating and opening (see below)
 *   SHIM_SECCOMP=1            the same one floor down, by system call
 *   SHIM_RELEASE=NAME         the running kernel calls itself so
 *   SHIM_MACHINE=NAME         and this machine so
 *   SHIM_LOG=FILE             at exit, write the counts there, "NAME COUNT" a line
 *
 * While tasks are frozen a program must not allocate and must not open files. SHIM_TRAP sees the
 * calls of malloc and its kin, mmap, brk, open and dlopen, and at FREEZE a thread beside the first; it
 * reports each on /dev/kmsg and turns
 * the exit code into 99. Calls from within pthread_create are let pass: the C library allocates the
 * thread's table of thread-local storage (a few hundred bytes of calloc) even when the stack is the
 * caller's own. SHIM_SECCOMP sees what escapes that, such as calls inside the C library, through a
 * filter that traps into a handler; a filter cannot be taken off, so after UNFREEZE the handler
 * lets the calls pass by making them itself from the one place that the filter lets through. With
 * preset stacks glibc 2.36 starts threads without mmap (its calloc is served from the heap, and
 * the heap grows by brk only when it is full), so there is no exception in the filter for mmap.
 * A thread that has SIGSYS blocked dies of such a call; the exit code is then 128 + SIGSYS.
 *
 * Linux on x86-64 with glibc only.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <linux/suspend_ioctls.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <ucontext.h>
#include <unistd.h>

enum call {
	NONE,
	FREEZE,
	UNFREEZE,
	CREATE_IMAGE,
	ATOMIC_RESTORE,
	FREE_IMAGE,
	FREE_SWAP_PAGES,
	S2RAM,
	SET_SWAP_AREA,
	GET_IMAGE_SIZE,
	PLATFORM_SUPPORT,
	POWER_OFF,
	PREF_IMAGE_SIZE,
	AVAIL_SWAP_SIZE,
	ALLOC_SWAP_PAGE,
	SNAPREAD,
	SNAPWRITE,
	READ,
	WRITE,
	SYNC,
	REBOOT,
	ALLOC,
	MMAP,
	CALLS
};

static const struct {
	const char *name;
	unsigned long request;
} calls[CALLS] = {
	[FREEZE] = {"FREEZE", SNAPSHOT_FREEZE},
	[UNFREEZE] = {"UNFREEZE", SNAPSHOT_UNFREEZE},
	[CREATE_IMAGE] = {"CREATE_IMAGE", SNAPSHOT_CREATE_IMAGE},
	[ATOMIC_RESTORE] = {"ATOMIC_RESTORE", SNAPSHOT_ATOMIC_RESTORE},
	[FREE_IMAGE] = {"FREE", SNAPSHOT_FREE},
	[FREE_SWAP_PAGES] = {"FREE_SWAP_PAGES", SNAPSHOT_FREE_SWAP_PAGES},
	[S2RAM] = {"S2RAM", SNAPSHOT_S2RAM},
	[SET_SWAP_AREA] = {"SET_SWAP_AREA", SNAPSHOT_SET_SWAP_AREA},
	[GET_IMAGE_SIZE] = {"GET_IMAGE_SIZE", SNAPSHOT_GET_IMAGE_SIZE},
	[PLATFORM_SUPPORT] = {"PLATFORM_SUPPORT", SNAPSHOT_PLATFORM_SUPPORT},
	[POWER_OFF] = {"POWER_OFF", SNAPSHOT_POWER_OFF},
	[PREF_IMAGE_SIZE] = {"PREF_IMAGE_SIZE", SNAPSHOT_PREF_IMAGE_SIZE},
	[AVAIL_SWAP_SIZE] = {"AVAIL_SWAP_SIZE", SNAPSHOT_AVAIL_SWAP_SIZE},
	[ALLOC_SWAP_PAGE] = {"ALLOC_SWAP_PAGE", SNAPSHOT_ALLOC_SWAP_PAGE},
	[SNAPREAD] = {"SNAPREAD", 0},
	[SNAPWRITE] = {"SNAPWRITE", 0},
	[READ] = {"READ", 0},
	[WRITE] = {"WRITE", 0},
	[SYNC] = {"SYNC", 0},
	[REBOOT] = {"REBOOT", 0},
	[ALLOC] = {"ALLOC", 0},
	[MMAP] = {"MMAP", 0},
};

static const struct {
	const char *name;
	int number;
} errors[] = {
	{"EPERM", EPERM},   {"EIO", EIO},	  {"EAGAIN", EAGAIN}, {"ENOMEM", ENOMEM},
	{"EBUSY", EBUSY},   {"ENODEV", ENODEV},	  {"EINVAL", EINVAL}, {"ENOSPC", ENOSPC},
	{"ENOSYS", ENOSYS}, {"ENODATA", ENODATA}, {"ENOTTY", ENOTTY}, {"EINTR", EINTR},
};

/* What SHIM_FAIL and SHIM_KILL ask for; nth 0 means every call. */
struct plan {
	enum call call;
	unsigned long nth;
	int error;
};

static struct plan fail_plan, kill_plan;
static atomic_ulong counts[CALLS];
static atomic_long clear_failures; /* writes still to fail in the restored system */
static atomic_long bad_events;	   /* completions still to be turned into errors */
static atomic_ulong trapped;
static atomic_bool frozen, restored;
static bool trap, want_seccomp, stay;
static int kmsg = -1;
static dev_t snapshot_device;
static pid_t own_pid;
static _Thread_local bool in_pthread_create __attribute__((tls_model("initial-exec")));

/*
 * One bare system call, at a place of its own so that the filter can tell it from all others.
 * Returns the kernel's answer, -errno on failure.
 */
long shim_call(long number, long a, long b, long c, long d, long e, long f);
extern const char shim_call_end[];
__asm__(".text\n"
	".globl shim_call\n.hidden shim_call\n.type shim_call, @function\n"
	"shim_call:\n"
	"	mov %rdi, %rax\n	mov %rsi, %rdi\n	mov %rdx, %rsi\n	mov %rcx, %rdx\n"
	"	mov %r8, %r10\n	mov %r9, %r8\n	mov 8(%rsp), %r9\n"
	"	syscall\n"
	".globl shim_call_end\n.hidden shim_call_end\n"
	"shim_call_end:\n"
	"	ret\n"
	".size shim_call, . - shim_call\n");

static long bare(long number, long a, long b, long c, long d, long e, long f)
{
	return shim_call(number, a, b, c, d, e, f);
}

/* As bare(), in the C library's manner. */
static long call6(long number, long a, long b, long c, long d, long e, long f)
{
	long result = bare(number, a, b, c, d, e, f);

	if (result < 0 && result > -4096) {
		errno = (int)-result;
		return -1;
	}
	return result;
}

/* ---- reports: no allocation, no stdio ---- */

static void report(const char *what, const char *detail)
{
	char line[160];
	size_t at = 0;

	for (const char *part = "<2>shim: "; *part; part++)
		line[at++] = *part;
	while (*what && at < 100)
		line[at++] = *what++;
	line[at++] = ' ';
	while (*detail && at < sizeof(line) - 2)
		line[at++] = *detail++;
	line[at++] = '\n';
	bare(SYS_write, kmsg, (long)line, (long)at, 0, 0, 0);
}

static void note_trapped(const char *what)
{
	if (!atomic_load(&frozen) || in_pthread_create)
		return;
	atomic_fetch_add(&trapped, 1);
	report("trapped while frozen:", what);
}

/* An allocation in the library: seccomp does not mind what is served from memory already there. */
static void trapped_call(const char *what)
{
	if (trap)
		note_trapped(what);
}

/* A system call that the shim makes itself, past the filter. */
static void trapped_system_call(const char *what)
{
	if (trap || want_seccomp)
		note_trapped(what);
}

/* ---- counting and acting ---- */

/* Count one call; true with errno set when it is to fail. */
static bool refused(enum call call)
{
	unsigned long n = atomic_fetch_add(&counts[call], 1) + 1;

	if (kill_plan.call == call && kill_plan.nth == n) {
		report("kills at", calls[call].name);
		bare(SYS_kill, own_pid, SIGKILL, 0, 0, 0, 0);
	}
	if (fail_plan.call == call && (fail_plan.nth == 0 || fail_plan.nth == n)) {
		report("fails", calls[call].name);
		errno = fail_plan.error;
		return true;
	}
	if (stay && (call == REBOOT || call == POWER_OFF)) {
		report("stays on, refusing", calls[call].name);
		errno = EBUSY;
		return true;
	}
	if (call == WRITE && atomic_load(&restored) && atomic_fetch_sub(&clear_failures, 1) > 0) {
		report("fails a write in the restored system", "");
		errno = EIO;
		return true;
	}
	return false;
}

/* Which of the names a transfer on this descriptor counts as. */
static enum call kind(int fd, enum call snapshot, enum call other)
{
	struct stat st;

	if (fd == kmsg || bare(SYS_fstat, fd, (long)&st, 0, 0, 0, 0) < 0)
		return NONE;
	if (S_ISCHR(st.st_mode) && st.st_rdev == snapshot_device)
		return snapshot;
	return S_ISBLK(st.st_mode) ? other : NONE;
}

static bool refused_transfer(int fd, enum call snapshot, enum call other)
{
	enum call call = kind(fd, snapshot, other);

	return call != NONE && refused(call);
}

static void install_filter(void);

static enum call of_request(unsigned long request)
{
	for (int i = 1; i < CALLS; i++)
		if (calls[i].request == request && request != 0)
			return (enum call)i;
	return NONE;
}

/* The freezer stops a thread that is there already for good: until the thaw that it would have to help with. */
static int own_threads(void)
{
	struct stat st;

	/* Two links of the folder itself, and one from each thread's. */
	return bare(SYS_stat, (long)"/proc/self/task", (long)&st, 0, 0, 0, 0) < 0 ? 0 : (int)st.st_nlink - 2;
}

int ioctl(int fd, unsigned long request, ...)
{
	va_list ap;
	enum call call = of_request(request);
	int *in_image;
	long argument, result;

	va_start(ap, request);
	argument = va_arg(ap, long);
	va_end(ap);
	if (call == NONE)
		return (int)call6(SYS_ioctl, fd, (long)request, argument, 0, 0, 0);
	if (refused(call))
		return -1;
	bool crowd = call == FREEZE && trap && own_threads() > 1;
	result = call6(SYS_ioctl, fd, (long)request, argument, 0, 0, 0);
	if (result != 0)
		return (int)result;
	if (call == FREEZE) {
		if (want_seccomp)
			install_filter();
		atomic_store(&frozen, true);
		if (crowd)
			note_trapped("a thread made before");
	} else if (call == UNFREEZE) {
		atomic_store(&frozen, false);
		atomic_store(&restored, false);
	} else if (call == CREATE_IMAGE) {
		in_image = (int *)argument; /* NOLINT: the kernel's own convention */
		atomic_store(&restored, *in_image == 0);
	}
	return (int)result;
}

ssize_t read(int fd, void *data, size_t size)
{
	if (refused_transfer(fd, SNAPREAD, READ))
		return -1;
	return call6(SYS_read, fd, (long)data, (long)size, 0, 0, 0);
}

ssize_t readv(int fd, const struct iovec *parts, int count)
{
	if (refused_transfer(fd, SNAPREAD, READ))
		return -1;
	return call6(SYS_readv, fd, (long)parts, count, 0, 0, 0);
}

ssize_t pread(int fd, void *data, size_t size, off_t offset)
{
	if (refused_transfer(fd, SNAPREAD, READ))
		return -1;
	return call6(SYS_pread64, fd, (long)data, (long)size, offset, 0, 0);
}

ssize_t pread64(int fd, void *data, size_t size, off64_t offset) __attribute__((alias("pread")));

ssize_t write(int fd, const void *data, size_t size)
{
	if (refused_transfer(fd, SNAPWRITE, WRITE))
		return -1;
	return call6(SYS_write, fd, (long)data, (long)size, 0, 0, 0);
}

ssize_t writev(int fd, const struct iovec *parts, int count)
{
	if (refused_transfer(fd, SNAPWRITE, WRITE))
		return -1;
	return call6(SYS_writev, fd, (long)parts, count, 0, 0, 0);
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t offset)
{
	if (refused_transfer(fd, SNAPWRITE, WRITE))
		return -1;
	return call6(SYS_pwrite64, fd, (long)data, (long)size, offset, 0, 0);
}

ssize_t pwrite64(int fd, const void *data, size_t size, off64_t offset) __attribute__((alias("pwrite")));

ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t offset)
{
	if (refused_transfer(fd, SNAPWRITE, WRITE))
		return -1;
	return call6(SYS_pwritev, fd, (long)parts, count, offset, 0, 0);
}

ssize_t pwritev64(int fd, const struct iovec *parts, int count, off64_t offset) __attribute__((alias("pwritev")));

int fsync(int fd)
{
	return refused(SYNC) ? -1 : (int)call6(SYS_fsync, fd, 0, 0, 0, 0, 0);
}

int fdatasync(int fd)
{
	return refused(SYNC) ? -1 : (int)call6(SYS_fdatasync, fd, 0, 0, 0, 0, 0);
}

int reboot(int how)
{
	if (refused(REBOOT))
		return -1;
	return (int)call6(SYS_reboot, 0xfee1dead, 672274793, how, 0, 0, 0);
}

static bool is_sync(long requests)
{
	return (*(struct iocb **)requests)->aio_lio_opcode == IOCB_CMD_FSYNC;
}

/* Asynchronous requests come this way, and some programs' reboot. */
long syscall(long number, ...)
{
	va_list ap;
	long a[6], result;

	va_start(ap, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(ap, long);
	va_end(ap);
	if (number == SYS_reboot && refused(REBOOT))
		return -1;
	/* a disk's error comes with the completion, not with the submission */
	if (number == SYS_io_submit && atomic_load(&frozen) && refused(is_sync(a[2]) ? SYNC : WRITE))
		atomic_fetch_add(&bad_events, 1);
	result = call6(number, a[0], a[1], a[2], a[3], a[4], a[5]);
	if (number == SYS_io_getevents && result > 0 && atomic_load(&bad_events) > 0) {
		atomic_fetch_sub(&bad_events, 1);
		((struct io_event *)a[3])->res = -EIO;
	}
	return result;
}

/* ---- SHIM_TRAP ---- */

/* The C library's own, found before anything is frozen. */
static struct {
	void *(*malloc)(size_t);
	void *(*calloc)(size_t, size_t);
	void *(*realloc)(void *, size_t);
	void *(*aligned_alloc)(size_t, size_t);
	void (*free)(void *);
	void *(*dlopen)(const char *, int);
	int (*pthread_create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
} libc;

/* dlsym may allocate before calloc is known; it gets this and never gives it back. */
static char early[4096];
static size_t early_used;

static void *early_memory(size_t size)
{
	void *place = early + early_used;

	early_used += (size + 15) & ~(size_t)15;
	return early_used <= sizeof(early) ? place : NULL;
}

void *malloc(size_t size)
{
	trapped_call("malloc");
	if (libc.malloc && refused(ALLOC))
		return NULL;
	return libc.malloc ? libc.malloc(size) : early_memory(size);
}

void *calloc(size_t count, size_t size)
{
	trapped_call("calloc");
	if (libc.calloc && refused(ALLOC))
		return NULL;
	return libc.calloc ? libc.calloc(count, size) : early_memory(count * size);
}

void *realloc(void *old, size_t size)
{
	trapped_call("realloc");
	if (libc.realloc && refused(ALLOC))
		return NULL;
	return libc.realloc ? libc.realloc(old, size) : early_memory(size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
	trapped_call("aligned_alloc");
	if (refused(ALLOC))
		return NULL;
	return libc.aligned_alloc(alignment, size);
}

int posix_memalign(void **place, size_t alignment, size_t size)
{
	trapped_call("posix_memalign");
	if (refused(ALLOC))
		return ENOMEM;
	*place = libc.aligned_alloc(alignment, size);
	return *place ? 0 : ENOMEM;
}

void free(void *place)
{
	if ((char *)place >= early && (char *)place < early + sizeof(early))
		return;
	if (libc.free)
		libc.free(place);
}

void *mmap(void *address, size_t size, int protection, int flags, int fd, off_t offset)
{
	trapped_system_call("mmap");
	if (refused(MMAP))
		return MAP_FAILED;
	return (void *)call6(SYS_mmap, (long)address, (long)size, protection, flags, fd, offset);
}

void *mmap64(void *address, size_t size, int protection, int flags, int fd, off64_t offset)
	__attribute__((alias("mmap")));

int open(const char *path, int flags, ...)
{
	va_list ap;
	int mode;

	va_start(ap, flags);
	mode = va_arg(ap, int);
	va_end(ap);
	trapped_system_call(path);
	return (int)call6(SYS_openat, AT_FDCWD, (long)path, flags, mode, 0, 0);
}

int open64(const char *path, int flags, ...) __attribute__((alias("open")));

int openat(int folder, const char *path, int flags, ...)
{
	va_list ap;
	int mode;

	va_start(ap, flags);
	mode = va_arg(ap, int);
	va_end(ap);
	trapped_system_call(path);
	return (int)call6(SYS_openat, folder, (long)path, flags, mode, 0, 0);
}

int openat64(int folder, const char *path, int flags, ...) __attribute__((alias("openat")));

void *dlopen(const char *path, int flags)
{
	trapped_call("dlopen");
	return libc.dlopen(path, flags);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*body)(void *), void *argument)
{
	int result;

	in_pthread_create = true;
	result = libc.pthread_create(thread, attributes, body, argument);
	in_pthread_create = false;
	return result;
}

/* ---- SHIM_SECCOMP ---- */

static const char *name_of(long number)
{
	switch (number) {
	case SYS_open:
		return "system call open";
	case SYS_openat:
		return "system call openat";
	case SYS_openat2:
		return "system call openat2";
	case SYS_mmap:
		return "system call mmap";
	case SYS_mremap:
		return "system call mremap";
	case SYS_brk:
		return "system call brk";
	default:
		return "system call";
	}
}

static void on_sigsys(int signal_number, siginfo_t *info, void *context)
{
	greg_t *r = ((ucontext_t *)context)->uc_mcontext.gregs;
	int saved = errno;

	(void)signal_number;
	note_trapped(name_of(info->si_syscall));
	r[REG_RAX] = bare(info->si_syscall, r[REG_RDI], r[REG_RSI], r[REG_RDX], r[REG_R10], r[REG_R8], r[REG_R9]);
	errno = saved;
}

#define LOAD(field)	      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define EQUAL(value, yes, no) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (value), (yes), (no))

/* Trap the calls of name_of(), wherever they are made but in shim_call. */
static void install_filter(void)
{
	const unsigned long from = (unsigned long)shim_call_end;
	const unsigned int low = (unsigned int)from;
	const unsigned int high = (unsigned int)(from >> 32);
	struct sock_filter filter[] = {
		/* the address that follows the call: shim_call_end only for our own */
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, instruction_pointer)),
		EQUAL(low, 0, 2),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, instruction_pointer) + 4),
		EQUAL(high, 7, 0),
		LOAD(nr),
		EQUAL(SYS_open, 6, 0),
		EQUAL(SYS_openat, 5, 0),
		EQUAL(SYS_openat2, 4, 0),
		EQUAL(SYS_mmap, 3, 0),
		EQUAL(SYS_mremap, 2, 0),
		EQUAL(SYS_brk, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
	};
	struct sock_fprog program = {sizeof(filter) / sizeof(filter[0]), filter};
	struct sigaction action = {.sa_sigaction = on_sigsys, .sa_flags = SA_SIGINFO};
	static bool installed;

	if (installed)
		return;
	installed = true;
	sigaction(SIGSYS, &action, NULL);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) < 0)
		report("cannot install", "the filter");
}

/* ---- what the kernel calls itself ---- */

static void call_it(char *field, size_t size, const char *variable)
{
	const char *name = getenv(variable);

	if (name)
		snprintf(field, size, "%s", name);
}

int uname(struct utsname *u)
{
	long result = bare(SYS_uname, (long)u, 0, 0, 0, 0, 0);

	if (result == 0) {
		call_it(u->release, sizeof u->release, "SHIM_RELEASE");
		call_it(u->machine, sizeof u->machine, "SHIM_MACHINE");
	}
	return (int)result;
}

/* ---- begin and end ---- */

static struct plan parse(const char *text)
{
	struct plan plan = {NONE, 0, EIO};
	char name[32] = "", nth[16] = "", error[16] = "";

	if (!text || sscanf(text, "%31[^:]:%15[^:]:%15s", name, nth, error) < 2)
		return plan;
	for (int i = 1; i < CALLS; i++)
		if (strcmp(calls[i].name, name) == 0)
			plan.call = (enum call)i;
	plan.nth = strcmp(nth, "*") == 0 ? 0 : strtoul(nth, NULL, 10);
	if (error[0] >= '0' && error[0] <= '9')
		plan.error = atoi(error);
	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
		if (strcmp(errors[i].name, error) == 0)
			plan.error = errors[i].number;
	return plan;
}

__attribute__((constructor)) static void begin(void)
{
	const char *text;
	struct stat st;

	*(void **)&libc.malloc = dlsym(RTLD_NEXT, "malloc");
	*(void **)&libc.calloc = dlsym(RTLD_NEXT, "calloc");
	*(void **)&libc.realloc = dlsym(RTLD_NEXT, "realloc");
	*(void **)&libc.aligned_alloc = dlsym(RTLD_NEXT, "aligned_alloc");
	*(void **)&libc.free = dlsym(RTLD_NEXT, "free");
	*(void **)&libc.dlopen = dlsym(RTLD_NEXT, "dlopen");
	*(void **)&libc.pthread_create = dlsym(RTLD_NEXT, "pthread_create");
	own_pid = getpid();
	fail_plan = parse(getenv("SHIM_FAIL"));
	kill_plan = parse(getenv("SHIM_KILL"));
	text = getenv("SHIM_CLEAR_FAIL");
	atomic_store(&clear_failures, text ? atol(text) : 0);
	trap = getenv("SHIM_TRAP") != NULL;
	want_seccomp = getenv("SHIM_SECCOMP") != NULL;
	stay = getenv("SHIM_STAY") != NULL;
	/* a high number, so that the program's own descriptors are what they are without the shim */
	kmsg = (int)bare(SYS_openat, AT_FDCWD, (long)"/dev/kmsg", O_WRONLY | O_CLOEXEC, 0, 0, 0);
	if (kmsg >= 0 && bare(SYS_dup3, kmsg, 200, O_CLOEXEC, 0, 0, 0) == 200) {
		bare(SYS_close, kmsg, 0, 0, 0, 0, 0);
		kmsg = 200;
	}
	snapshot_device = stat("/dev/snapshot", &st) == 0 ? st.st_rdev : makedev(10, 231);
}

__attribute__((destructor)) static void end(void)
{
	const char *path = getenv("SHIM_LOG");
	FILE *file = path ? fopen(path, "w") : NULL;

	if (file) {
		for (int i = 1; i < CALLS; i++)
			fprintf(file, "%s %lu\n", calls[i].name, atomic_load(&counts[i]));
		fclose(file);
	}
	if ((trap || want_seccomp) && atomic_load(&trapped) > 0)
		_exit(99);
}
