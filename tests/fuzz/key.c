/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Files of keys: the machine's pair, and bytes of any kind. */
#include "fuzz.h"

#include "base/error.h"
#include "system/key-file.h"

#include <unistd.h>

FUZZ_TARGET(key)
{
	struct key_pair pair;
	char path[32];
	int fd = fuzz_file(data, size, path);
	int r = key_pair_read(&pair, path);

	fuzz_must(r == E_OK || fault_text()[0]);
	fault_clear();
	struct recipient to;
	if (recipient_from_key_file(&to, CIPHER_OCB, path) == E_OK)
		fuzz_must(size >= KEY_FILE_LEAST && size <= KEY_FILE_MOST && to.slot.mode == KEY_MODE_FILE);
	int other = recipient_from_key_pair(&to, CIPHER_OCB, path);
	fuzz_must((other == E_OK) == (r == E_OK));
	fuzz_must(key_pair_exists(path) != E_OK);
	close(fd);
	if (r == E_OK)
		fuzz_must(key_cost_ok(&pair.cost));
	fault_clear();
	return 0;
}
