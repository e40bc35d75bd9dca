/* SPDX-License-Identifier: GPL-2.0-or-later */
/* s2disk: saves the machine to a swap area and powers it off; called s2both, suspends it to RAM instead. */
#include <config.h>

#include "tools/s2disk.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/pool.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { STACK_TOUCHED = 256 << 10 };

struct s2disk job;

static const char mem_sleep_path[] = "/sys/power/mem_sleep";

static void usage(FILE *to)
{
	fputs(job.to_ram ? "Usage: s2both [OPTION]...\n"
			   "Save the machine's memory to swap and suspend it to RAM.\n\n"
			 : "Usage: s2disk [OPTION]...\n"
			   "Save the machine's memory to swap and power it off.\n\n",
	      to);
	fputs("  -f, --config FILE            configuration (default /etc/suspend.conf)\n"
	      "  -r, --resume_device DEVICE   swap area to save to: a device, UUID=, LABEL=, or a swap file\n"
	      "  -o, --resume_offset PAGES    where a swap file begins on its device\n"
	      "  -s, --image_size SIZE        image size to aim at (bytes, 512M, 40%)\n"
	      "  -P, --parameter \"KEY = VALUE\"  any setting of the configuration\n"
	      "      --measure[=LIST]         only measure, with each of these compressors; the machine goes on\n"
	      "      --check                  save nothing: tell whether this machine would come back; --json\n"
	      "      --print-target           tell where it would save to, as settings for an initramfs's "
	      "suspend.conf\n"
	      "      --force                  save although a check says that it would not\n"
	      "  -v, --verbose                say what is done; -q, --quiet  only errors\n"
	      "  -h, --help                   this text\n"
	      "  -V, --version                version and codecs\n\n"
	      "Settings: suspend.conf(5).  Exit codes: s2disk(8).\n",
	      to);
}

/* ---- options ---- */

static int set_key(struct config *c, const char *key, const char *value)
{
	char line[CONFIG_PATH + 64];

	if ((size_t)snprintf(line, sizeof line, "%s = %s", key, value) >= sizeof line)
		return fault(E_USAGE, 0, "`%.40s...' is too long for `%s'", value, key);
	return config_set(c, "command line", line);
}

enum { O_CHECK = 256, O_JSON, O_FORCE, O_PRINT_TARGET, O_S2RAM };

static const struct option options[] = {
	{"check", no_argument, NULL, O_CHECK},
	{"json", no_argument, NULL, O_JSON},
	{"force", no_argument, NULL, O_FORCE},
	{"print-target", no_argument, NULL, O_PRINT_TARGET},
	{"help", no_argument, NULL, 'h'},
	{"version", no_argument, NULL, 'V'},
	{"config", required_argument, NULL, 'f'},
	{"resume_device", required_argument, NULL, 'r'},
	{"resume_offset", required_argument, NULL, 'o'},
	{"image_size", required_argument, NULL, 's'},
	{"parameter", required_argument, NULL, 'P'},
	{"measure", optional_argument, NULL, 'm'},
	{"verbose", no_argument, NULL, 'v'},
	{"quiet", no_argument, NULL, 'q'},
	/* uswsusp's, which pm-utils passes on: what a graphics card needs is left to the kernel. */
	{"vbe_save", no_argument, NULL, O_S2RAM},
	{"vbe_post", no_argument, NULL, O_S2RAM},
	{"vbe_mode", no_argument, NULL, O_S2RAM},
	{"radeontool", no_argument, NULL, O_S2RAM},
	{"pci_save", no_argument, NULL, O_S2RAM},
	{"acpi_sleep", required_argument, NULL, O_S2RAM},
	{NULL, 0, NULL, 0},
};
static const char short_options[] = "hVf:r:o:s:P:vq";

/* Settings on the command line, whatever their place, override the file. */
static int apply_option(struct config *c, int o)
{
	switch (o) {
	case 'r':
		return set_key(c, "resume device", optarg);
	case 'o':
		return set_key(c, "resume offset", optarg);
	case 's':
		return set_key(c, "image size", optarg);
	case 'P':
		return config_set(c, "-P", optarg);
	default:
		return E_OK;
	}
}

static int check_arguments(int argc, char **argv)
{
	if (optind < argc)
		log_error("`%s': s2disk takes no arguments; see --help", argv[optind]);
	else if (job.json && !job.check)
		log_error("--json goes with --check only; see --help");
	else
		return E_OK;
	return E_USAGE;
}

static int read_options(int argc, char **argv, const char **file)
{
	int o;

	while ((o = getopt_long(argc, argv, short_options, options, NULL)) != -1) {
		if (o == 'f')
			*file = optarg;
		else if (o == 'm')
			job.measure = optarg ? optarg : "auto,none,lz4,lzo,zstd";
		else if (o == 'v')
			log_set_level(LOG_LEVEL_VERBOSE);
		else if (o == 'q')
			log_set_level(LOG_LEVEL_ERROR);
		else if (o == '?')
			return E_USAGE;
		job.check |= o == O_CHECK;
		job.json |= o == O_JSON;
		job.force |= o == O_FORCE;
		job.print_target |= o == O_PRINT_TARGET;
	}
	return check_arguments(argc, argv);
}

static int configure(int argc, char **argv)
{
	const char *file = NULL;
	int r = read_options(argc, argv, &file), o;

	if (r != E_OK)
		return r;
	config_default(&job.conf);
	r = config_read(&job.conf, file);
	checker_file(&job.checker, &job.conf);
	optind = 1;
	while (r == E_OK && (o = getopt_long(argc, argv, short_options, options, NULL)) != -1)
		r = apply_option(&job.conf, o);
	/* Of what programs read, nothing else is to be on stdout. */
	if (r == E_OK && !job.json && !job.print_target)
		tool_notes(&job.conf);
	return r == E_OK ? E_OK : log_fault(r, "configuration");
}

static uint64_t wanted_size(void)
{
	uint64_t ram = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);

	return job.conf.image_percent ? ram / 100 * job.conf.image_percent : job.conf.image_size;
}

/* ---- the target ---- */

static int find_area(void)
{
	const struct config *c = &job.conf;

	return area_find(c->resume_device, c->resume_offset_set, c->resume_offset, (uint32_t)sysconf(_SC_PAGESIZE),
			 &job.area);
}

static int find_target(void)
{
	int r = find_area();

	if (r == E_OK)
		r = area_check_stack(job.area.device);
	if (r != E_OK)
		return log_fault(r, "resume device");
	log_verbose("saving to %s at byte %llu, %sactive, %srotational", job.area.path,
		    (unsigned long long)job.area.start, job.area.active ? "" : "not ",
		    job.area.rotational ? "" : "not ");
	return E_OK;
}

/* For those who make an initramfs: in there a swap file is a place on a partition. */
static int print_target(void)
{
	char name[AREA_PATH];
	int r = find_area();

	if (r != E_OK)
		return log_fault(r, "resume device");
	area_name(&job.area, name);
	printf("resume device = %s\nresume offset = %llu\n", name,
	       (unsigned long long)(job.area.start / (uint64_t)sysconf(_SC_PAGESIZE)));
	return fflush(stdout) ? E_IO : E_OK;
}

static int check_signature(void)
{
	void *scratch = aligned_alloc(DISK_UNIT, 2 * DISK_UNIT);
	int r = scratch ? mark_read(&job.target.file.disk, job.area.start, scratch, &job.mark) : E_MEMORY;

	if (disk_answers(&job.target.file.disk))
		free(scratch);
	if (r != E_OK)
		return r;
	if (job.mark.kind == MARK_OURS || job.mark.kind == MARK_DAMAGED)
		return fault(E_BUSY, 0, "%s holds an image already; `s2image discard' or swapon gives it up",
			     job.area.path);
	if (job.mark.kind != MARK_SWAP || !job.mark.swap_header)
		return fault(E_FOREIGN, 0, "%s has no swap signature; run mkswap on it, or name another resume device",
			     job.area.path);
	if (job.mark.page_size != (uint32_t)sysconf(_SC_PAGESIZE))
		return fault(E_DEVICE, 0, "%s was made for pages of %u bytes; run mkswap on it", job.area.path,
			     job.mark.page_size);
	if (!job.mark.room)
		return fault(E_DEVICE, 0, "%s has too many bad pages listed in its header; use another area",
			     job.area.path);
	return E_OK;
}

static int look_at_target(void)
{
	int r = target_open(&job.target, job.area.path, TARGET_SAVE);

	job.target.file.patience = job.conf.disk_timeout * SECOND;
	if (r == E_BUSY)
		r = fault(E_DEVICE, 0,
			  "the kernel lets nobody write to %s while its file system is mounted "
			  "(CONFIG_BLK_DEV_WRITE_MOUNTED is off): use a swap partition",
			  job.area.path);
	return r == E_OK ? check_signature() : r;
}

static int open_target(void)
{
	int r = look_at_target();

	return r == E_OK ? E_OK : log_fault(r, "resume device");
}

static int switch_on(void)
{
	if (job.area.active)
		return E_OK;
	int r = area_swapon(&job.area, &job.swapped_on);
	if (r != E_OK)
		return log_fault(r, "resume device");
	if (job.swapped_on)
		log_verbose("switched swap on %s on", job.area.swap_path);
	return E_OK;
}

/* ---- checks ---- */

static void plan_checks(void)
{
	bool sized = job.conf.image_size_set || job.conf.image_percent;

	checker_plan(&job.checker, &job.conf, sized ? wanted_size() : IMAGE_SIZE_UNKNOWN, job.to_ram);
}

static int check_before(void)
{
	plan_checks();
	checker_target(&job.checker, &job.area, E_OK);
	return checker_before(&job.checker, job.force);
}

/* --check: nothing is switched on, frozen or written. */
static int check_all(void)
{
	char sealing[RECIPIENT_TEXT];
	int found = find_area(), r = found;

	if (r == E_OK)
		r = look_at_target();
	plan_checks();
	checker_target(&job.checker, found == E_OK ? &job.area : NULL, r);
	job.checker.facts.seal_code = recipient_look(&job.conf, sealing);
	job.checker.facts.seal_text = sealing;
	return checker_show(&job.checker, job.json);
}

/* ---- memory ---- */

static int choose_codec(void)
{
	struct save_options *o = &job.save;

	o->page_size = (uint32_t)sysconf(_SC_PAGESIZE);
	o->block_size = BLOCK_SIZE_DEFAULT;
	o->threads = tool_threads(&job.conf);
	o->adapt = job.conf.compress && job.conf.codec == CODEC_CHOICE_DEFAULT;
	int r = tool_codec(&job.conf, &o->codec, &o->level);
	return r == E_OK ? E_OK : log_fault(r, "configuration");
}

/* Never plain instead of sealed.  Asks where it must, so only when the target is known to be good. */
static int choose_key(void)
{
	int r = job.conf.encrypt ? recipient_make(&job.conf, &job.recipient) : E_OK;

	return r == E_OK ? E_OK : log_fault(r, "encrypt = y");
}

static void say_plan(size_t bytes, unsigned wanted)
{
	const struct save_options *o = &job.save;

	if (o->threads < wanted)
		log_verbose("%u threads instead of %u: more would take over %zu MiB", o->threads, wanted,
			    arena_limit() >> 20);
	if (o->adapt)
		log_verbose("compressor chosen block by block, %u threads, %zu KiB of locked memory", o->threads,
			    bytes >> 10);
	else
		log_verbose("%s:%d, %u threads, %zu KiB of locked memory", o->codec->name, o->level, o->threads,
			    bytes >> 10);
}

static int take_memory(void)
{
	size_t size = 0, extra = FINGERPRINT_SCRATCH + IMAGE_SCRATCH + 2 * DISK_UNIT;
	unsigned wanted = job.save.threads;
	int r = save_plan(&job.save, arena_limit(), &size);

	if (r == E_OK)
		r = arena_open(&job.arena, size + extra, 1);
	if (r == E_OK && job.conf.encrypt)
		r = seal_prepare(&job.seal, &job.recipient, job.save.threads);
	if (r != E_OK)
		return log_fault(r, "memory");
	say_plan(size + extra, wanted);
	job.h.save = save_carve(&job.arena, &job.save);
	job.h.scratch = arena_take(&job.arena, IMAGE_SCRATCH, DISK_UNIT);
	job.fingerprint_scratch = arena_take(&job.arena, FINGERPRINT_SCRATCH, DISK_UNIT);
	if (!job.h.save || !job.h.scratch || !job.fingerprint_scratch)
		return log_fault(E_INTERNAL, "memory");
	return E_OK;
}

/* A limit that somebody left lower would kill the program where it touches its stack. */
static int allow_stack(void)
{
	struct rlimit l;
	rlim_t least = 4 * STACK_TOUCHED;

	if (getrlimit(RLIMIT_STACK, &l) || l.rlim_cur >= least)
		return E_OK;
	l.rlim_cur = least;
	if (l.rlim_max < least)
		l.rlim_max = least;
	if (!setrlimit(RLIMIT_STACK, &l))
		return E_OK;
	fault(E_MEMORY, errno, "the stack may not grow to %u KiB; raise `ulimit -s'", (unsigned)(least >> 10));
	return log_fault(E_MEMORY, "memory");
}

static void __attribute__((noinline)) touch_stack(void)
{
	volatile char deep[STACK_TOUCHED];

	for (size_t i = 0; i < sizeof deep; i += 4096)
		deep[i] = 0;
}

/* From here on nothing of this process may be missing from memory, or be killed for it. */
static int lock_process(void)
{
	int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	if (fd >= 0) {
		if (write(fd, "-1000", 5) != 5)
			log_verbose("cannot leave the OOM killer's reach");
		close(fd);
	}
	int r = allow_stack();
	if (r != E_OK)
		return r;
	touch_stack();
	if (mlockall(MCL_CURRENT)) {
		fault(E_MEMORY, errno, "cannot lock the program into memory");
		return log_fault(E_MEMORY, "memory");
	}
	return E_OK;
}

/* ---- callbacks; tasks are frozen ---- */

static int take_fingerprints(void *ctx, struct fingerprint *out, uint32_t *n)
{
	(void)ctx;
	*n = fs_list_count(job.mounted);
	return fs_list_take(job.mounted, job.fingerprint_scratch, out);
}

static int check_signals(void *ctx, const struct save_progress *p)
{
	static const struct timespec at_once;

	(void)ctx;
	(void)p;
	int s = sigtimedwait(&job.signals, NULL, &at_once);
	return s > 0 ? fault(E_ABORTED, 0, "by signal %d", s) : E_OK;
}

static int while_saving(void *ctx, const struct save_progress *p)
{
	progress_show(&job.progress, p);
	if (!progress_stop_wanted(&job.progress))
		return check_signals(ctx, p);
	progress_say(&job.progress, "stopped; the machine goes on");
	return fault(E_ABORTED, 0, "by Backspace or Escape");
}

static void draw_id(void *ctx, id128 *out)
{
	(void)ctx;
	/* 16 bytes come whole once the pool is ready, which it is by the time anything hibernates. */
	if (getrandom(out->b, sizeof out->b, 0) != (ssize_t)sizeof out->b)
		put_le64(out->b, (uint64_t)time(NULL));
}

static uint64_t seconds(void *ctx)
{
	(void)ctx;
	return (uint64_t)time(NULL);
}

/* ---- what surrounds the freeze ---- */

static void block_signals(void)
{
	static const int stop[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
	sigset_t all;

	sigemptyset(&job.signals);
	for (size_t i = 0; i < sizeof stop / sizeof stop[0]; i++)
		sigaddset(&job.signals, stop[i]);
	all = job.signals;
	sigaddset(&all, SIGTSTP);
	sigaddset(&all, SIGTTIN);
	sigaddset(&all, SIGTTOU);
	sigprocmask(SIG_BLOCK, &all, NULL);
}

static void fill_hibernate(void)
{
	struct hibernate *h = &job.h;

	h->kernel = &job.snapshot.kernel;
	h->disk = &job.target.file.disk;
	h->image = &job.image;
	h->seal = job.conf.encrypt ? &job.seal : NULL;
	h->device = job.area.device;
	h->area_start = job.area.start;
	h->to_ram = job.to_ram;
	h->set_size = job.conf.image_size_set || job.conf.image_percent;
	h->image_size = wanted_size();
	h->old_image_size = machine_image_size();
	h->fingerprints = take_fingerprints;
	h->fingerprint = job.fingerprint;
	h->tick = while_saving;
	h->event = report_event;
	h->random = draw_id;
	h->now = seconds;
	machine_describe(&h->header);
	h->header.swap_uuid = job.mark.swap_uuid;
	h->header.area_start = job.area.start;
	h->header.resume_pause = job.conf.resume_pause;
	h->header.shutdown = job.conf.shutdown;
	if (h->header.shutdown == SHUTDOWN_PLATFORM && !machine_has_platform()) {
		log_verbose("the firmware offers no S4; shutting down instead");
		h->header.shutdown = SHUTDOWN_POWEROFF;
	}
}

static int open_rest(void)
{
	int r = fs_list_open("/proc/self/mountinfo", &job.mounted);

	if (r != E_OK)
		return log_fault(r, "mounted file systems");
	if (fs_list_count(job.mounted) > FINGERPRINTS_MAX) {
		fault(E_DEVICE, 0, "%u file systems are mounted, %d can be recorded", fs_list_count(job.mounted),
		      FINGERPRINTS_MAX);
		return log_fault(E_DEVICE, "mounted file systems");
	}
	job.kmsg = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (job.kmsg >= 0)
		lseek(job.kmsg, 0, SEEK_END);
	r = snapshot_open(&job.snapshot, job.conf.snapshot_device, false);
	return r == E_OK ? E_OK : log_fault(r, "kernel");
}

static void show(void)
{
	char line[AREA_PATH + 128];

	progress_open(&job.progress, CONSOLE_SWITCH, "saving");
	log_mirror(progress_mirror, &job.progress);
	snprintf(line, sizeof line, "Saving the machine to %s.  Backspace or Esc stops it.", job.area.path);
	progress_say(&job.progress, line);
}

static void show_no_more(void)
{
	log_mirror(NULL, NULL);
	progress_close(&job.progress);
}

/* Drivers look at what is selected, whoever starts the suspend. */
static void select_sleep(bool deep)
{
	if (!job.to_ram || !strcmp(job.mem_sleep, "deep"))
		return;
	if (!file_write_text(mem_sleep_path, deep ? "deep" : job.mem_sleep))
		log_verbose("cannot select in %s", mem_sleep_path);
}

static int save_machine(void)
{
	loglevel_set(&job.loglevel, job.conf.suspend_loglevel);
	select_sleep(true);
	show();
	log_hold();
	int r = hibernate(&job.h);
	log_release();
	select_sleep(false);
	loglevel_reset(&job.loglevel, -1);
	if (r != E_OK)
		report_failure(r);
	else if (!job.measure)
		report_result();
	show_no_more();
	return r;
}

/* ---- measuring ---- */

/* A hibernation with compressor @name up to the mark, which is not set. */
static int measure_one(const char *name)
{
	int r = set_key(&job.conf, "compressor", name);

	if (r != E_OK)
		return log_fault(r, "--measure");
	r = choose_codec();
	if (r == E_OK)
		r = take_memory();
	if (r != E_OK)
		return r;
	fill_hibernate();
	job.h.measure = true;
	r = lock_process();
	if (r != E_OK)
		return r;
	job.began = clock_ns();
	r = save_machine();
	if (r == E_OK)
		report_measured(name);
	munlockall();
	seal_close(&job.seal);
	if (disk_answers(&job.target.file.disk))
		arena_close(&job.arena);
	return r;
}

static int measure(void)
{
	char list[256], *rest = list, *name;
	int r = E_OK;

	if (strlen(job.measure) >= sizeof list) {
		log_error("--measure: the list is too long");
		return E_USAGE;
	}
	strcpy(list, job.measure);
	job.conf.compress = true;
	printf("%-10s %9s %9s %6s %10s %8s %8s %8s\n", "compressor", "image MB", "stored MB", "ratio", "snapshot s",
	       "write s", "MB/s", "sum s");
	while (r == E_OK && (name = strsep(&rest, ",")))
		r = measure_one(name);
	return r;
}

static int check_ram(void)
{
	int r = job.to_ram ? machine_deep(mem_sleep_path, job.mem_sleep) : E_OK;

	return r == E_OK ? E_OK : log_fault(r, "kernel");
}

static int run(void)
{
	int r = check_ram();

	if (r == E_OK)
		r = find_target();
	if (r == E_OK)
		r = choose_codec();
	if (r == E_OK)
		r = open_target();
	if (r == E_OK)
		r = check_before();
	if (r == E_OK)
		r = switch_on();
	if (r == E_OK)
		r = choose_key();
	if (r == E_OK)
		r = open_rest();
	if (r == E_OK && job.measure)
		return measure();
	if (r == E_OK)
		r = take_memory();
	if (r != E_OK)
		return r;
	fill_hibernate();
	r = lock_process();
	return r == E_OK ? save_machine() : r;
}

static void give_back(int code)
{
	seal_close(&job.seal);
	pool_close();
	explicit_bzero(&job.recipient, sizeof job.recipient);
	fs_list_close(job.mounted);
	/* Before the kernel is left, which takes the image's pages of swap back then. */
	target_leave(&job.target, code);
	snapshot_close(&job.snapshot);
	arena_close(&job.arena);
	if (job.swapped_on && area_swapoff(&job.area) != E_OK)
		log_error("cannot switch swap on %s off again: %s", job.area.swap_path, fault_text());
}

int main(int argc, char **argv)
{
	const char *slash = argc ? strrchr(argv[0], '/') : NULL;
	const char *name = slash ? slash + 1 : argc ? argv[0] : "";

	job.to_ram = !strcmp(name, "s2both");
	name = job.to_ram ? "s2both" : "s2disk";
	tool_start(name);
	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "-h") || !strcmp(argv[i], "--help"))
			return usage(stdout), fflush(stdout) ? E_IO : E_OK;
		if (!strcmp(argv[i], "-V") || !strcmp(argv[i], "--version"))
			return tool_version(name);
	}
	job.target.fd = job.snapshot.fd = job.kmsg = -1;
	int r = configure(argc, argv);
	if (r != E_OK)
		return r;
	if (job.print_target)
		return print_target();
	if (job.check) {
		r = choose_codec();
		return r == E_OK ? check_all() : r;
	}
	if (geteuid()) {
		log_error("saving the machine needs root");
		return E_PRIVILEGE;
	}
	block_signals();
	r = run();
	give_back(r);
	return r;
}
