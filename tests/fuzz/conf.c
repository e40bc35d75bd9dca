/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The configuration: as a file, and its first line as an argument of -P. */
#include "fuzz.h"

#include "base/error.h"
#include "base/log.h"
#include "tools/config.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* What it says of strange lines is of no interest here. */
static void be_quiet(void)
{
	static int done;

	if (!done && freopen("/dev/null", "w", stdout))
		log_set_level(LOG_LEVEL_ERROR);
	done = 1;
}

FUZZ_TARGET(conf)
{
	struct config c;
	char path[32], line[512];

	be_quiet();
	int fd = fuzz_file(data, size, path);
	config_default(&c);
	int r = config_read(&c, path);
	close(fd);
	fuzz_must(r == E_OK || r == E_CONF);
	fuzz_must(memchr(c.resume_device, 0, sizeof c.resume_device) != NULL);
	fuzz_must(r == E_OK || fault_text()[0]);
	fault_clear();
	size_t n = size < sizeof line - 1 ? size : sizeof line - 1;
	memcpy(line, data, n);
	line[n] = 0;
	config_default(&c);
	config_set(&c, "-P", line);
	fault_clear();
	config_read_usual(&c, "/proc/self/nowhere");
	fault_clear();
	return 0;
}
