/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * resume: in the initramfs, loads the image that stands on the swap area.
 *
 * It asks for nothing but the passphrase of a sealed image, or when a key is
 * pressed, never waits without bound and never restores in part; whatever it
 * returns, the boot goes on.
 * doc/image-format.md's table of outcomes is followed row by row.
 */
#include <config.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/pool.h"
#include "system/area.h"
#include "system/fingerprint.h"
#include "system/hibernate.h"
#include "system/machine.h"
#include "tools/config.h"
#include "tools/plymouth.h"
#include "tools/progress.h"
#include "tools/tool.h"
#include "tools/unlock.h"

#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

/*
 * How long a stopped load waits for an answer before it goes on, and how often:
 * no boot ever hangs on it, not even with noise on its serial line.
 */
enum { ASK_SECONDS = 30, ASK_LOOKS = 20 /* a second */, ASK_MOST = 3 };

static struct job {
	struct config conf;
	struct boot_line line;
	bool pass_over; /* noresume, or --passed-over */
	bool late;	/* --passed-over */
	const char *device;
	uint64_t offset; /* pages */
	char path[AREA_PATH];
	struct target target;
	struct image image;
	struct snapshot snapshot;
	struct arena arena;
	struct load *load;
	struct seal seal;
	struct ahead *ahead;
	uint8_t *scratch;
	struct header here;
	struct progress progress;
	struct plymouth plymouth;
	unsigned asked;
	bool keep; /* stopped by a key: power off, the image stays */
	struct loglevel loglevel;
} job;

static void usage(FILE *to)
{
	fputs("Usage: resume [OPTION]... [DEVICE]\n"
	      "Load the image that s2disk saved and go on where the machine was.\n\n"
	      "  -f, --config FILE              configuration (default /etc/suspend.conf; none is needed)\n"
	      "  -o, --resume_offset PAGES      where a swap file begins on DEVICE\n"
	      "  -P, --parameter \"KEY = VALUE\"  any setting of the configuration\n"
	      "      --installation-id          print this installation's id, as an initramfs's /etc/dormouse.id has "
	      "it\n"
	      "      --passed-over              do not load: mark the image as passed over by this boot\n"
	      "  -v, --verbose  -q, --quiet  -h, --help  -V, --version\n\n"
	      "Without DEVICE: the kernel command line's resume=, then the configuration's resume device.\n"
	      "Exit codes: resume(8).\n",
	      to);
}

/* ---- options ---- */

static const struct option options[] = {
	{"help", no_argument, NULL, 'h'},
	{"version", no_argument, NULL, 'V'},
	{"config", required_argument, NULL, 'f'},
	{"resume_offset", required_argument, NULL, 'o'},
	{"parameter", required_argument, NULL, 'P'},
	{"passed-over", no_argument, NULL, 'p'},
	{"verbose", no_argument, NULL, 'v'},
	{"quiet", no_argument, NULL, 'q'},
	{NULL, 0, NULL, 0},
};
static const char short_options[] = "hVf:o:P:vq";

struct given {
	const char *file, *device;
	bool offset_set;
	uint64_t offset;
};

static int take_option(struct given *g, int o)
{
	switch (o) {
	case 'f':
		g->file = optarg;
		return E_OK;
	case 'o':
		g->offset_set = tool_number(optarg, &g->offset);
		if (!g->offset_set)
			log_error("`%s' is no number of pages", optarg);
		return g->offset_set ? E_OK : E_USAGE;
	case 'p':
		job.late = job.pass_over = true;
		return E_OK;
	case 'v':
		log_set_level(LOG_LEVEL_VERBOSE);
		return E_OK;
	case 'q':
		log_set_level(LOG_LEVEL_ERROR);
		return E_OK;
	case '?':
		return E_USAGE;
	default:
		return E_OK;
	}
}

static int read_options(int argc, char **argv, struct given *g)
{
	int o, r = E_OK;

	while (r == E_OK && (o = getopt_long(argc, argv, short_options, options, NULL)) != -1)
		r = take_option(g, o);
	if (r != E_OK)
		return r;
	if (optind < argc)
		g->device = argv[optind++];
	if (optind == argc)
		return E_OK;
	log_error("`%s': one device at most; see --help", argv[optind]);
	return E_USAGE;
}

static int read_conf(int argc, char **argv, const char *file)
{
	int o, r;

	config_default(&job.conf);
	r = config_read(&job.conf, file);
	optind = 1;
	while (r == E_OK && (o = getopt_long(argc, argv, short_options, options, NULL)) != -1)
		if (o == 'P')
			r = config_set(&job.conf, "-P", optarg);
	return r;
}

/* Arguments before the kernel command line before the configuration. */
static void choose_target(const struct given *g)
{
	const struct boot_line *b = &job.line;

	job.device = g->device ? g->device : b->resume[0] ? b->resume : job.conf.resume_device;
	if (g->offset_set)
		job.offset = g->offset;
	else if (b->resume_offset_set)
		job.offset = b->resume_offset;
	else if (job.conf.resume_offset_set)
		job.offset = job.conf.resume_offset;
}

static int configure(int argc, char **argv)
{
	struct given g = {0};
	int r = read_options(argc, argv, &g);

	if (r != E_OK)
		return r;
	r = boot_line_read("/proc/cmdline", &job.line);
	if (r == E_OK)
		r = read_conf(argc, argv, g.file);
	if (r != E_OK)
		return log_fault(r, "configuration");
	job.pass_over |= job.line.noresume;
	choose_target(&g);
	if (job.device[0])
		return E_OK;
	/* A boot that was not told where to look has nothing to resume. */
	log_verbose("no resume device was named");
	return E_NOIMAGE;
}

/* ---- finding ---- */

/* In the booted system the configured swap file can be looked up by its path, as the saving did. */
static int locate_file(void)
{
	static char place[32];
	struct stat st;
	dev_t device;

	if (!job.late || job.device != job.conf.resume_device || stat(job.device, &st) || !S_ISREG(st.st_mode))
		return E_OK;
	int r = swap_file_offset(job.device, (uint32_t)sysconf(_SC_PAGESIZE), &device, &job.offset);
	if (r != E_OK)
		return r;
	snprintf(place, sizeof place, "%u:%u", major(device), minor(device));
	job.device = place;
	return E_OK;
}

static int open_target(enum target_mode mode)
{
	int r = target_open(&job.target, job.path, mode);

	job.target.file.patience = job.conf.disk_timeout * SECOND;
	return r;
}

static int find_image(void)
{
	unsigned wait = job.late ? 0 : job.conf.resume_wait + job.line.delay;
	int r = locate_file();

	if (r == E_OK)
		r = area_wait(job.device, wait, job.path);
	if (r == E_OK)
		r = open_target(TARGET_LOOK);
	if (r != E_OK)
		return job.late ? r : log_fault(r, job.device);
	job.scratch = aligned_alloc(DISK_UNIT, IMAGE_SCRATCH);
	if (!job.scratch)
		return log_fault(E_MEMORY, job.path);
	job.here.page_size = (uint32_t)sysconf(_SC_PAGESIZE);
	r = mark_read(&job.target.file.disk, job.offset * job.here.page_size, job.scratch, &job.image.mark);
	if (r != E_OK)
		return log_fault(r, job.path);
	enum mark_kind kind = job.image.mark.kind;
	return kind == MARK_NONE || kind == MARK_SWAP || kind == MARK_OLD_SWAP ? E_NOIMAGE : E_OK;
}

/* There is something: nobody else may use the device from here on. */
static int claim(void)
{
	target_close(&job.target);
	/* A late boot step cannot claim the device under a mounted file system that holds a swap file. */
	int r = open_target(job.late ? TARGET_SAVE : TARGET_CLAIM);
	return r == E_OK ? E_OK : log_fault(r, job.path);
}

/* ---- judging ---- */

/* Lets the boot go on without the image: it must never be resumed after that. */
static int give_up(int code)
{
	log_fault(code, job.path);
	if (!image_is_ours(&job.image)) {
		log_note("%s is left as it is", job.path);
		return code;
	}
	fault_clear();
	if (image_discard(&job.image) == E_OK)
		log_note("the image on %s is given up; it is swap again", job.path);
	else
		log_error("the image on %s could not be given up: %s", job.path, fault_text());
	if (job.image.key_left)
		log_error("its wrapped key could not be overwritten on %s", job.path);
	return code;
}

static int pass_over(void)
{
	struct image *im = &job.image;

	if (!im->header_whole || (im->state.flags & STATE_PASSED_OVER))
		return E_NORESUME;
	im->state.flags |= STATE_PASSED_OVER;
	if (image_write_state(im) != E_OK)
		return log_fault(E_NORESUME, job.path);
	log_note("the image on %s is passed over and will not be resumed any more", job.path);
	return E_NORESUME;
}

static int check_machine(void)
{
	const struct header *h = &job.image.header;
	int r = machine_matches(h, &job.here);

	for (unsigned i = 0; r == E_OK && i < 32; i++)
		if ((h->codecs >> i & 1) && (!codec_by_id(i) || !codec_built_in(codec_by_id(i))))
			r = fault(E_UNSUPPORTED, 0, "it is packed with %s, which this program was built without",
				  codec_by_id(i) ? codec_by_id(i)->name : "an unknown codec");
	return r;
}

static int check_file_systems(void)
{
	char warning[256] = "";
	int r = fingerprints_compare(job.image.fingerprint, job.image.header.fingerprint_count, "/sys/class/block",
				     "/dev", warning, sizeof warning);

	if (warning[0])
		log_note("used since the image was made, but only worth a warning: %s", warning);
	return r;
}

static int check_history(void)
{
	if (job.image.state.flags & STATE_PASSED_OVER)
		return fault(E_STALE, 0, "an earlier boot passed the image over");
	if (job.image.state.attempts >= ATTEMPTS_MAX)
		return fault(E_GIVENUP, 0, "%u attempts to load it failed", job.image.state.attempts);
	return E_OK;
}

/* E_OK: the image may be loaded.  Everything else has been said and done. */
static int judge(void)
{
	struct image *im = &job.image;
	int r = image_open(im, &job.target.file.disk, job.offset * job.here.page_size, job.scratch);

	if (r == E_NOIMAGE)
		return r;
	if (r == E_FOREIGN)
		return log_fault(r, job.path);
	machine_describe(&job.here);
	if (im->mark.kind == MARK_OURS && machine_foreign(im->mark.installation, job.here.installation)) {
		char id[37];
		id_text(im->mark.installation, id);
		log_error("%s: the image belongs to another installation (%s); it is left as it is", job.path, id);
		return E_OTHERSYSTEM;
	}
	if (job.pass_over)
		return pass_over();
	if (r != E_OK)
		return give_up(r);
	if (!job.conf.force && (r = mounts_check("/proc/self/mountinfo")) != E_OK)
		return log_fault(r, job.path);
	if ((r = check_history()) != E_OK || (r = check_machine()) != E_OK || (r = check_file_systems()) != E_OK)
		return give_up(r);
	return E_OK;
}

/* ---- the key ---- */

static bool is_sealed(void)
{
	return job.image.header.features & FEATURE_SEALED;
}

/* Wipes all that could open the image; before the restore too, which may leave this memory as it is. */
static void forget_key(void)
{
	seal_close(&job.seal);
	pool_close();
	if (is_sealed())
		crypt_burn_stack();
}

/* The image stays as it is: nothing was written to it in this boot. */
static int off_unanswered(void)
{
	log_fault(E_NOANSWER, job.path);
	log_note("switching off; the image on %s is kept", job.path);
	fault_clear();
	return machine_power_off();
}

/* E_OK: the image, if it is sealed, can be opened.  Everything else has been said and done. */
static int unlock(void)
{
	struct unlock u = {.conf = &job.conf, .image = &job.image, .path = job.path, .seal = &job.seal};

	if (!is_sealed() && job.conf.encrypt)
		return give_up(fault(E_KEY, 0,
				     "the image is not sealed, though `encrypt = y' is configured: somebody may have "
				     "put it there"));
	if (!is_sealed())
		return E_OK;
	int r = unlock_image(&u);
	job.ahead = u.ahead;
	if (r == E_NOANSWER)
		r = off_unanswered();
	if (r != E_OK)
		return give_up(r);
	if (job.ahead)
		job.image.disk = ahead_disk(job.ahead);
	return E_OK;
}

/* ---- loading ---- */

static int take_memory(void)
{
	struct load_options o = {
		.page_size = job.image.header.page_size,
		.block_size = job.image.header.block_size,
		.threads = tool_threads(&job.conf),
	};
	size_t size = 0;
	int r = load_plan(&o, arena_limit(), &size);

	if (r == E_OK)
		r = arena_open(&job.arena, size, 0);
	if (r != E_OK)
		return r;
	log_verbose("%u threads, %zu KiB of memory", o.threads, size >> 10);
	job.image.state.load_threads = o.threads;
	job.load = load_carve(&job.arena, &o);
	return job.load ? E_OK : E_INTERNAL;
}

/* What a user who pressed Backspace or Escape wants.  What is loaded meanwhile is not restored before. */
static int ask(void)
{
	struct timespec look = {0, 1000000000L / ASK_LOOKS};

	progress_say(&job.progress, "");
	progress_say(&job.progress, "Stop loading?  b: boot without the image, which is given up");
	progress_say(&job.progress, "               p: power off, the image stays");
	progress_say(&job.progress, "               any other key, or 30 seconds: go on");
	for (int i = 0; i < ASK_SECONDS * ASK_LOOKS; i++) {
		int key = console_key(&job.progress.console);
		if (key == 'b' || key == 'B')
			return fault(E_ABORTED, 0, "loading was stopped by a key");
		job.keep = key == 'p' || key == 'P';
		if (job.keep)
			return fault(E_ABORTED, 0, "loading was stopped by a key; the image stays");
		if (key != KEY_NONE)
			break;
		nanosleep(&look, NULL);
	}
	progress_say(&job.progress, "going on");
	return E_OK;
}

static void show_plymouth(const struct save_progress *p)
{
	char line[PROGRESS_LINE];

	if (!job.plymouth.client)
		return;
	progress_words(line, sizeof line, "loading", p);
	plymouth_show(&job.plymouth, p->total ? (unsigned)(p->raw * 100 / p->total) : 0, line);
}

static int while_loading(void *ctx, const struct save_progress *p)
{
	(void)ctx;
	progress_show(&job.progress, p);
	show_plymouth(p);
	if (!progress_stop_wanted(&job.progress) || job.asked == ASK_MOST)
		return E_OK;
	job.asked++;
	return ask();
}

static int load_pages(void)
{
	struct kernel_sink sink;
	struct load_input in = {.image = &job.image, .sink = &sink.sink, .tick = while_loading};

	kernel_sink_open(&sink, &job.snapshot.kernel, job.image.header.page_size);
	progress_open(&job.progress, CONSOLE_STAY, "loading");
	if (log_get_level() > LOG_LEVEL_ERROR)
		plymouth_open(&job.plymouth);
	progress_say(&job.progress, "Loading the saved machine.  Backspace or Esc stops it.");
	int r = load_run(job.load, &in);
	plymouth_close(&job.plymouth, r == E_OK ? "The saved machine goes on" : "The saved machine is not resumed");
	progress_close(&job.progress);
	return r;
}

/* The attempt is on the disk before the first page is loaded, how long it took before the restore. */
static int load(void)
{
	struct image *im = &job.image;
	int r = is_sealed() ? image_unseal(im, &job.seal) : image_read_trailer(im);

	if (r == E_OK)
		r = take_memory();
	if (r == E_OK)
		r = snapshot_open(&job.snapshot, job.conf.snapshot_device, true);
	if (r != E_OK)
		return r;
	im->state.attempts++;
	r = image_write_state(im);
	log_verbose("loading %llu KiB from %llu KiB, attempt %u", (unsigned long long)(im->header.image_bytes >> 10),
		    (unsigned long long)(im->trailer.stream_bytes >> 10), im->state.attempts);
	uint64_t start = clock_ns();
	if (r == E_OK)
		r = load_pages();
	im->state.load_ns = clock_ns() - start;
	return r == E_OK ? image_write_state(im) : r;
}

/* The attempt does not count: it did not fail. */
static int power_off(void)
{
	job.image.state.attempts--;
	int r = image_write_state(&job.image);
	if (r != E_OK)
		return give_up(r);
	log_note("the image on %s stays; powering off", job.path);
	fault_clear();
	return give_up(machine_power_off());
}

static void restore_failed(void *ctx)
{
	(void)ctx;
	give_up(E_RESTORE);
}

static int run(void)
{
	int r = find_image();

	if (r == E_OK)
		r = claim();
	if (r == E_OK)
		r = judge();
	if (r == E_OK)
		r = unlock();
	if (r != E_OK)
		return r;
	loglevel_set(&job.loglevel, job.conf.suspend_loglevel);
	r = load();
	job.image.disk = &job.target.file.disk;
	ahead_close(job.ahead);
	job.ahead = NULL;
	forget_key();
	if (job.keep)
		return power_off();
	if (r != E_OK)
		return give_up(r);
	arena_wipe(&job.arena);
	console_keep_in_front();
	log_hold();
	r = restore(&job.snapshot.kernel, &job.image.header, restore_failed, NULL);
	log_release();
	console_let_switch();
	return r;
}

/* Talking to the console is not to stop us, whoever's terminal it is. */
static void ignore_terminal_stops(void)
{
	signal(SIGTTIN, SIG_IGN);
	signal(SIGTTOU, SIG_IGN);
}

static int print_installation(void)
{
	id128 id = machine_installation();

	if (id_is_zero(id)) {
		log_error("this installation has no id: neither /etc/dormouse.id nor /etc/machine-id holds 32 "
			  "hexadecimal digits; systemd-machine-id-setup makes one");
		return E_NOIMAGE;
	}
	for (int i = 0; i < 16; i++)
		printf("%02x", id.b[i]);
	putchar('\n');
	return fflush(stdout) ? E_IO : E_OK;
}

int main(int argc, char **argv)
{
	tool_start("resume");
	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "-h") || !strcmp(argv[i], "--help"))
			return usage(stdout), fflush(stdout) ? E_IO : E_OK;
		if (!strcmp(argv[i], "-V") || !strcmp(argv[i], "--version"))
			return tool_version("resume");
		if (!strcmp(argv[i], "--installation-id"))
			return print_installation();
	}
	job.target.fd = job.snapshot.fd = -1;
	ignore_terminal_stops();
	int r = configure(argc, argv);
	if (r != E_OK)
		return r;
	if (geteuid()) {
		log_error("loading an image needs root");
		return E_PRIVILEGE;
	}
	r = run();
	ahead_close(job.ahead);
	forget_key();
	loglevel_reset(&job.loglevel, job.conf.max_loglevel);
	snapshot_close(&job.snapshot);
	target_leave(&job.target, r);
	arena_close(&job.arena);
	free(job.scratch);
	return r;
}
