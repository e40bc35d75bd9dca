/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The compressors to compare, and one that only takes its time. */
#include "base/clock.h"
#include "base/error.h"
#include "tools/bench.h"

#include <string.h>

static int parse_level(struct choice *c, const char *text, const char *level)
{
	bool minus = *level == '-';
	uint64_t n;

	if (!tool_number(level + minus, &n) || n > 100000)
		return fault(E_USAGE, 0, "--compressor: the level in `%s' is no number", text);
	c->level = minus ? -(int)n : (int)n;
	if (c->level < c->codec->level_min || c->level > c->codec->level_max || !c->level)
		return fault(E_USAGE, 0, "--compressor: `%s': the levels of %s go from %d to %d", text, c->codec->name,
			     c->codec->level_min, c->codec->level_max);
	return E_OK;
}

int choice_parse(struct choice *c, const char *text)
{
	char name[16] = "";
	size_t n = strcspn(text, ":");

	*c = (struct choice){.adapt = !strcmp(text, "auto")};
	if (n < sizeof name)
		memcpy(name, text, n);
	if (strlen(text) >= sizeof c->name || (!c->adapt && !(c->codec = codec_by_name(name))))
		return fault(E_USAGE, 0, "--compressor: `%.40s' is none of auto, lz4[:N], lzo, zstd[:N], none", text);
	strcpy(c->name, text);
	if (c->adapt)
		return E_OK;
	if (!codec_built_in(c->codec))
		return fault(E_USAGE, 0, "--compressor: this program was built without %s", c->codec->name);
	c->level = c->codec->level_default;
	return text[n] ? parse_level(c, text, text + n + 1) : E_OK;
}

/* ---- work that needs no core ---- */

static uint64_t sleep_ns;

static size_t no_memory(int level, size_t block)
{
	(void)level;
	(void)block;
	return 0;
}

static int no_open(void *memory, size_t size, int level, size_t block)
{
	(void)memory;
	(void)size;
	(void)level;
	(void)block;
	return E_OK;
}

static size_t sleep_pack(void *memory, int level, const uint8_t *src, size_t n, uint8_t *dst, size_t room)
{
	struct timespec t = {(time_t)(sleep_ns / 1000000000), (long)(sleep_ns % 1000000000)};
	size_t quarter = n / 4;

	(void)memory;
	(void)level;
	while (clock_nanosleep(CLOCK_MONOTONIC, 0, &t, &t))
		;
	if (quarter > room)
		return 0;
	memcpy(dst, src, quarter);
	return quarter;
}

static const struct codec codec_sleep = {
	.name = "sleep",
	.id = CODEC_SLEEP,
	.pack_memory = no_memory,
	.pack_open = no_open,
	.pack = sleep_pack,
};

int choice_sleep(struct choice *c, uint64_t ns)
{
	if (!ns || ns > 10000000000)
		return fault(E_USAGE, 0, "--sleep-codec: %llu is not between 1 and 10000000000 ns",
			     (unsigned long long)ns);
	sleep_ns = ns;
	*c = (struct choice){.name = "sleep", .codec = &codec_sleep};
	return E_OK;
}
