/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * hog MEGABYTES - hold so much anonymous memory, half of it hard to pack, and look all of it over again and again.
 * Prints "full" when it is filled and ends with 1 when any of it is not what it was.
 */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096, WORDS = PAGE / 8 };

/* The word that belongs at @at of page @page: random in the page's first half, one number in the other. */
static uint64_t word(uint64_t page, unsigned at)
{
	uint64_t x = page * 0x9e3779b97f4a7c15u + (at < WORDS / 2 ? at : 0);

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	return (x ^ x >> 27) * 0x94d049bb133111ebu;
}

static int look(const uint64_t *memory, uint64_t pages)
{
	for (uint64_t page = 0; page < pages; page++)
		for (unsigned at = 0; at < WORDS; at += 17)
			if (memory[page * WORDS + at] != word(page, at)) {
				printf("hog: page %llu is not what it was\n", (unsigned long long)page);
				return 1;
			}
	return 0;
}

static void asked(int number)
{
	(void)number;
}

int main(int argc, char **argv)
{
	uint64_t pages = argc == 2 ? strtoull(argv[1], NULL, 10) << 8 : 0;
	uint64_t *memory = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (!pages || memory == MAP_FAILED) {
		perror("hog");
		return 2;
	}
	signal(SIGUSR1, asked);
	for (uint64_t page = 0; page < pages; page++)
		for (unsigned at = 0; at < WORDS; at++)
			memory[page * WORDS + at] = word(page, at);
	puts("full");
	fflush(stdout);
	/* Looks when it is asked to, by SIGUSR1: reading on and on would keep the disk busy. */
	for (;;) {
		pause();
		if (look(memory, pages))
			return 1;
		puts("sound");
		fflush(stdout);
	}
}
