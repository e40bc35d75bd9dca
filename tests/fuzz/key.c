/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The machine's key pair, as a file. */
#include "fuzz.h"

#include "base/error.h"
#include "system/key-file.h"

#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct key_pair pair;
	char path[32];
	int fd = fuzz_file(data, size, path);
	int r = key_pair_read(&pair, path);

	close(fd);
	fuzz_must(r == E_OK || fault_text()[0]);
	if (r == E_OK)
		fuzz_must(key_cost_ok(&pair.cost));
	fault_clear();
	return 0;
}
