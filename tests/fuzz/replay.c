/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Gives files, or all files of folders, to a fuzz target, without libFuzzer: any compiler will do. */
#include "fuzz.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MOST = 16 << 20 };

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
	LLVMFuzzerTestOneInput(exact, n);
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

int main(int argc, char **argv)
{
	int failed = 0;

	for (int i = 1; i < argc; i++) {
		struct stat st;

		if (stat(argv[i], &st)) {
			perror(argv[i]);
			return 1;
		}
		failed |= S_ISDIR(st.st_mode) ? give_folder(argv[i]) : give_file(argv[i]);
	}
	fprintf(stderr, "%lu inputs\n", tried); /* targets may have taken stdout away */
	return failed || !tried;
}
