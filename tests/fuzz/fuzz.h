/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the fuzz targets share.  Each file named after a target defines
 * LLVMFuzzerTestOneInput(); libFuzzer's main or replay.c's calls it.  They are
 * linked with a build of src in which integrity checks hold whatever is read
 * (FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION): no fuzzer gets behind a hash.
 */
#ifndef DORMOUSE_TESTS_FUZZ_H
#define DORMOUSE_TESTS_FUZZ_H

#include "base/disk.h"

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A disk in memory that may be written to; reads beyond its end fail. */
struct fuzz_disk {
	struct disk disk;
	uint8_t *bytes;
};

/* @size is rounded up to DISK_UNIT; what @data does not give is zero. */
void fuzz_disk_open(struct fuzz_disk *d, const uint8_t *data, size_t size);
void fuzz_disk_close(struct fuzz_disk *d);

/* A file without a name that holds @data, rewound; its path goes to @path.  Close it. */
int fuzz_file(const uint8_t *data, size_t size, char path[32]);

/* Ends the program when @holds is false: a finding. */
void fuzz_must(int holds);

#endif
