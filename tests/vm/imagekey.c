/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * imagekey MODE AREA < SECRET: prints the key of the sealed image on the area,
 * in hexadecimal, as resume would find it.  MODE: --passphrase or --key-file.
 *
 * The tests look for this key where it must not be.  Nothing else prints one.
 */
#include "base/error.h"
#include "image/image.h"
#include "image/key.h"
#include "tools/tool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct image image;
static struct target target;

static int open_image(const char *path)
{
	int r = target_open(&target, path, TARGET_LOOK);
	uint8_t *scratch = aligned_alloc(DISK_UNIT, IMAGE_SCRATCH);

	if (r == E_OK && !scratch)
		r = E_MEMORY;
	return r == E_OK ? image_open(&image, &target.file.disk, 0, scratch) : r;
}

static int find_key(const char *mode, uint8_t key[CRYPT_KEY])
{
	static char secret[4096];
	struct bytes given = {secret, fread(secret, 1, sizeof secret, stdin)};

	if (!(image.header.features & FEATURE_SEALED))
		return fault(E_NOIMAGE, 0, "the image is not sealed");
	int r = crypt_start();
	if (r != E_OK)
		return r;
	return strcmp(mode, "--key-file") ? key_from_passphrase(&image.header, given, key)
					  : key_from_key_bytes(&image.header, given, key);
}

int main(int argc, char **argv)
{
	uint8_t key[CRYPT_KEY];

	if (argc != 3)
		return E_USAGE;
	int r = open_image(argv[2]);
	if (r == E_OK)
		r = find_key(argv[1], key);
	if (r != E_OK) {
		fprintf(stderr, "%s: %s (%s)\n", argv[2], fault_text(), code_sentence(r));
		return r;
	}
	for (int i = 0; i < CRYPT_KEY; i++)
		printf("%02x", key[i]);
	return fflush(stdout) ? E_IO : E_OK;
}
