/* SPDX-License-Identifier: GPL-2.0-or-later */
/* swap-offset FILE: where a swap file begins on its device, as the line that suspend.conf wants. */
#include "base/error.h"
#include "base/log.h"
#include "system/area.h"

/* In angle brackets, since tools/config.h lies beside this file. */
#include <config.h>

#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

static const struct option options[] = {
	{"help", no_argument, NULL, 'h'},
	{"version", no_argument, NULL, 'V'},
	{NULL, 0, NULL, 0},
};

static void help(void)
{
	printf("Usage: swap-offset FILE\n"
	       "\n"
	       "Prints where a swap file begins on its device, in pages, as the line for\n"
	       "/etc/suspend.conf:\n"
	       "\n"
	       "  resume offset = N\n"
	       "\n"
	       "  -h, --help     show this and exit\n"
	       "  -V, --version  show the version and exit\n");
}

/* Anything that has been printed must have arrived, or a script reads half a line. */
static int flushed(void)
{
	return fflush(stdout) || ferror(stdout) ? log_fault(E_IO, "standard output") : E_OK;
}

static int print_offset(const char *file)
{
	uint64_t offset;
	dev_t device;
	int code = swap_file_offset(file, (uint32_t)sysconf(_SC_PAGESIZE), &device, &offset);

	if (code != E_OK)
		return log_fault(code, "no offset");
	printf("resume offset = %" PRIu64 "\n", offset);
	return flushed();
}

int main(int argc, char **argv)
{
	int c;

	log_open("swap-offset");
	while ((c = getopt_long(argc, argv, "hV", options, NULL)) >= 0) {
		switch (c) {
		case 'h':
			help();
			return flushed();
		case 'V':
			printf("swap-offset (Dormouse) %s\n", PACKAGE_VERSION);
			return flushed();
		default:
			return E_USAGE;
		}
	}
	if (argc - optind != 1) {
		log_error("one swap file is wanted; see swap-offset --help");
		return E_USAGE;
	}
	return print_offset(argv[optind]);
}
