/* SPDX-License-Identifier: GPL-2.0-or-later */
/* suspend-keygen: the machine's key pair, so that saving a sealed image asks for nothing. */
#include <config.h>

#include "base/error.h"
#include "base/log.h"
#include "system/key-file.h"
#include "tools/secret.h"
#include "tools/tool.h"

#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum action { MAKE, CHANGE, SHOW };

static struct job {
	enum action action;
	const char *path;
	int fd;
} job = {.path = KEY_PAIR_PATH, .fd = -1};

static void usage(FILE *to)
{
	fputs("Usage: suspend-keygen [OPTION]...\n"
	      "Make the key pair for which hibernation images are sealed: saving asks for\n"
	      "nothing then, resuming for the passphrase.\n\n"
	      "  -o, --output FILE          where it lies (default " KEY_PAIR_PATH ")\n"
	      "  -p, --change-passphrase    give the pair in FILE another passphrase\n"
	      "      --id                   print the id of the pair in FILE\n"
	      "      --passphrase-fd N      read the passphrase from descriptor N, a line; with\n"
	      "                             --change-passphrase the old one, then the new one\n"
	      "  -q, --quiet  -h, --help  -V, --version\n\n"
	      "Exit codes: suspend-keygen(8).\n",
	      to);
}

enum { O_FD = 256, O_ID };

static const struct option options[] = {
	{"help", no_argument, NULL, 'h'},	  {"version", no_argument, NULL, 'V'},
	{"output", required_argument, NULL, 'o'}, {"change-passphrase", no_argument, NULL, 'p'},
	{"id", no_argument, NULL, O_ID},	  {"passphrase-fd", required_argument, NULL, O_FD},
	{"quiet", no_argument, NULL, 'q'},	  {NULL, 0, NULL, 0},
};

static int take_option(int o)
{
	switch (o) {
	case 'o':
		job.path = optarg;
		break;
	case 'p':
		job.action = CHANGE;
		break;
	case O_ID:
		job.action = SHOW;
		break;
	case O_FD:
		return tool_descriptor(optarg, &job.fd);
	case 'q':
		log_set_level(LOG_LEVEL_ERROR);
		break;
	default:
		return E_USAGE;
	}
	return E_OK;
}

static void id_of(const struct key_pair *pair, char out[2 * KEY_ID + 1])
{
	uint8_t id[KEY_ID];

	key_pair_id(pair, id);
	key_id_text(id, out);
}

static struct bytes bytes_of(const struct secret *s)
{
	return (struct bytes){s->text, s->n};
}

/* Nothing is asked for that could only be refused afterwards. */
static int make(struct key_pair *pair)
{
	struct secret word = {0};
	int r = access(job.path, F_OK) ? crypt_start() : key_pair_exists(job.path);

	if (r == E_OK)
		r = secret_get(&word, job.fd, "New passphrase for the key pair: ", true);
	if (r == E_OK)
		r = key_pair_make(pair, bytes_of(&word), NULL);
	secret_drop(&word);
	return r == E_OK ? key_pair_write(pair, job.path, false) : r;
}

static int change(struct key_pair *pair)
{
	struct secret old = {0}, new = {0};
	int r = key_pair_read(pair, job.path);

	if (r == E_OK)
		r = secret_get(&old, job.fd, "Passphrase of the key pair: ", false);
	if (r == E_OK)
		r = secret_get(&new, job.fd, "New passphrase: ", true);
	if (r == E_OK)
		r = key_pair_change(pair, bytes_of(&old), bytes_of(&new), NULL);
	secret_drop(&old);
	secret_drop(&new);
	return r == E_OK ? key_pair_write(pair, job.path, true) : r;
}

static int run(void)
{
	struct key_pair pair;
	char id[2 * KEY_ID + 1];
	int r;

	if (job.action == SHOW)
		r = key_pair_read(&pair, job.path);
	else
		r = job.action == CHANGE ? change(&pair) : make(&pair);
	if (r != E_OK) {
		explicit_bzero(&pair, sizeof pair);
		return log_fault(r, job.path);
	}
	id_of(&pair, id);
	explicit_bzero(&pair, sizeof pair);
	if (job.action == SHOW)
		return printf("%s\n", id) < 0 || fflush(stdout) ? E_IO : E_OK;
	log_note(job.action == CHANGE ? "%s: key pair %s has its new passphrase; images saved before have the old one"
				      : "%s: key pair %s; `encrypt = y' in suspend.conf seals images for it",
		 job.path, id);
	return E_OK;
}

int main(int argc, char **argv)
{
	int o, r = E_OK;

	tool_start("suspend-keygen");
	secret_guard();
	while (r == E_OK && (o = getopt_long(argc, argv, "hVo:pq", options, NULL)) != -1) {
		if (o == 'h')
			return usage(stdout), fflush(stdout) ? E_IO : E_OK;
		if (o == 'V')
			return tool_version("suspend-keygen");
		r = take_option(o);
	}
	if (r == E_OK && optind < argc)
		r = fault(E_USAGE, 0, "`%s' is no option; see --help", argv[optind]);
	if (r != E_OK)
		return fault_text()[0] ? log_fault(r, "command line") : r;
	return run();
}
