/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the fuzz targets share.  Each file named after a target defines one with
 * FUZZ_TARGET(): libFuzzer's entry, or one of several in replay.c's program.
 * They are linked with a build of src in which integrity checks hold whatever is read
 * (FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION): no fuzzer gets behind a hash.
 */
#ifndef DORMOUSE_TESTS_FUZZ_H
#define DORMOUSE_TESTS_FUZZ_H

#include "base/disk.h"

#include <stddef.h>
#include <stdint.h>

#ifdef FUZZ_REPLAY
#define FUZZ_TARGET(name) int fuzz_##name(const uint8_t *data, size_t size)
FUZZ_TARGET(header);
FUZZ_TARGET(extents);
FUZZ_TARGET(block);
FUZZ_TARGET(conf);
FUZZ_TARGET(key);
FUZZ_TARGET(image);
FUZZ_TARGET(filesystem);
#else
#define FUZZ_TARGET(name) int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
FUZZ_TARGET();
#endif

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
