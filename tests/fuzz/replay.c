/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Gives files, or all files of folders, to fuzz targets, without libFuzzer: any
 * compiler will do.  usage: replay [TARGET FILE...]; alone, every target gets
 * its corpus in $SRCDIR.
 */
#include "fuzz.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST = 16 << 20, SECONDS_MOST = 30 /* for one input, under any sanitizer on a busy machine */ };

static const struct target {
	const char *name;
	int (*run)(const uint8_t *data, size_t size);
} targets[] = {
	{"header", fuzz_header}, {"extents", fuzz_extents}, {"block", fuzz_block},	     {"conf", fuzz_conf},
	{"key", fuzz_key},	 {"image", fuzz_image},	    {"filesystem", fuzz_filesystem},
};

static const struct target *target;
static unsigned long tried;

static int give_file(const char *path)
{
	FILE *f = fopen(path, "rb");
	uint8_t *data = malloc(MOST);

	if (!f || !data) {
		perror(path);
		free(data);
		if (f)
			fclose(f);
		return 1;
	}
	size_t n = fread(data, 1, MOST, f);
	fclose(f);
	/* A copy of just that size, so that a sanitizer sees a read past its end. */
	uint8_t *exact = malloc(n ? n : 1);
	memcpy(exact, data, n);
	free(data);
	alarm(SECONDS_MOST);
	target->run(exact, n);
	alarm(0);
	free(exact);
	tried++;
	return 0;
}

static int give_folder(const char *path)
{
	DIR *d = opendir(path);
	char name[PATH_MAX];
	int failed = 0;

	if (!d) {
		perror(path);
		return 1;
	}
	for (struct dirent *e; (e = readdir(d));) {
		if (e->d_name[0] == '.')
			continue;
		snprintf(name, sizeof name, "%s/%s", path, e->d_name);
		failed |= give_file(name);
	}
	closedir(d);
	return failed;
}

static int give(const char *path)
{
	struct stat st;

	if (stat(path, &st)) {
		perror(path);
		return 1;
	}
	return S_ISDIR(st.st_mode) ? give_folder(path) : give_file(path);
}

/* An empty corpus is a failure: it was not found where it should be. */
static int give_corpus(void)
{
	const char *source = getenv("SRCDIR");
	char path[PATH_MAX];
	unsigned long before = tried;

	snprintf(path, sizeof path, "%s/tests/fuzz/corpus/%s", source ? source : ".", target->name);
	int failed = give(path);
	fprintf(stderr, "%s: %lu inputs\n", target->name, tried - before);
	return failed || tried == before;
}

int main(int argc, char **argv)
{
	int failed = 0;

	for (size_t i = 0; i < sizeof targets / sizeof targets[0]; i++) {
		target = &targets[i];
		if (argc == 1)
			failed |= give_corpus();
		else if (!strcmp(argv[1], target->name))
			for (int n = 2; n < argc; n++)
				failed |= give(argv[n]);
	}
	fprintf(stderr, "%lu inputs\n", tried); /* targets may have taken stdout away */
	return failed || !tried;
}
