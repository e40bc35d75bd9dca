/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <config.h>
#include "tools/check.h"

#include "base/error.h"
#include "base/log.h"
#include "tools/tool.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

static const char *const levels[] = {[CHECK_OK] = "ok", [CHECK_WARNING] = "warning", [CHECK_FAIL] = "fail"};

/* ---- facts ---- */

static int resolve(const char *spec, dev_t *device)
{
	char path[AREA_PATH];
	struct stat st;
	int code = area_resolve(spec, path);

	if (code != E_OK || stat(path, &st))
		return code != E_OK ? code : E_DEVICE;
	*device = st.st_rdev;
	return E_OK;
}

void checker_file(struct checker *k, const struct config *c)
{
	strcpy(k->conf_file, c->file);
	strcpy(k->conf_device, c->resume_device);
	k->facts.conf_offset = c->resume_offset_set ? c->resume_offset : 0;
}

void checker_plan(struct checker *k, const struct config *c, uint64_t image_size, bool both)
{
	struct check_facts *f = &k->facts;
	struct utsname u;

	uname(&u);
	snprintf(k->release, sizeof k->release, "%.*s", (int)sizeof k->release - 1, u.release);
	f->root = "";
	f->release = k->release;
	f->snapshot_device = c->snapshot_device;
	f->page_size = (uint32_t)sysconf(_SC_PAGESIZE);
	f->image_size = image_size;
	f->compress = c->compress && c->codec != CODEC_CHOICE_NONE;
	f->conf_file = k->conf_file;
	f->conf_device = k->conf_device;
	f->program = DORMOUSE_DIR "/resume";
	f->both = both;
	f->resolve = resolve;
}

void checker_target(struct checker *k, const struct area *a, int code)
{
	snprintf(k->area_text, sizeof k->area_text, "%s", fault_text()[0] ? fault_text() : code_sentence(code));
	fault_clear();
	k->facts.area = a;
	k->facts.area_code = code;
	k->facts.area_text = k->area_text;
}

/* ---- before the freeze ---- */

int checker_before(const struct checker *k, bool force)
{
	struct finding found;
	int code = E_OK;

	for (unsigned i = 0; i < check_count; i++) {
		const struct check *c = &checks[i];
		if (!c->fatal)
			continue;
		check_run(c, &k->facts, &found);
		if (found.level != CHECK_FAIL)
			continue;
		bool passed = c->force && force;
		log_error("%s: %s; %s%s", c->name, found.text, found.cure,
			  passed     ? " (--force: going on all the same)"
			  : c->force ? " (--force goes on all the same)"
				     : "");
		if (!passed && code == E_OK)
			code = found.code;
	}
	return code;
}

/* ---- all of them ---- */

/* Opening it is the only way to know whether it is busy; root alone may. */
static void try_snapshot(struct check_facts *f)
{
	int fd = open(f->snapshot_device, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	f->snapshot_errno = fd < 0 ? errno : 0;
	if (fd >= 0)
		close(fd);
}

static bool colourful(void)
{
	const char *no = getenv("NO_COLOR"), *term = getenv("TERM");

	return !(no && *no) && term && strcmp(term, "dumb") && isatty(1);
}

static void show_line(const struct check *c, const struct finding *found, bool colours)
{
	static const char *const on[] = {"\033[32m", "\033[33m", "\033[1;31m"};

	if (found->level == CHECK_OK && log_get_level() < LOG_LEVEL_NOTE)
		return;
	printf("%s%-8s%s %-15s %s%s%s\n", colours ? on[found->level] : "", levels[found->level],
	       colours ? "\033[0m" : "", c->name, found->text, found->cure[0] ? "; " : "", found->cure);
}

static void show_json(const struct check *c, const struct finding *found, bool first)
{
	printf("%s\n    {\"name\": \"%s\", \"level\": \"%s\", \"code\": %d, \"text\": ", first ? "" : ",", c->name,
	       levels[found->level], found->code);
	tool_json_string(found->text);
	printf(", \"cure\": ");
	tool_json_string(found->cure);
	putchar('}');
}

static void end_json(const struct check_facts *f, enum check_level worst, int code)
{
	struct estimate e;

	check_estimate(f, &e);
	printf("\n  ],\n  \"level\": \"%s\",\n  \"code\": %d,\n  \"estimate\": {\"raw_bytes\": %llu, ", levels[worst],
	       code, (unsigned long long)e.raw);
	if (e.ratio_known)
		printf("\"stored_bytes\": %llu, ", (unsigned long long)e.stored);
	else
		printf("\"stored_bytes\": null, ");
	if (e.seconds > 0)
		printf("\"seconds\": %.1f}\n}\n", e.seconds);
	else
		printf("\"seconds\": null}\n}\n");
}

int checker_show(struct checker *k, bool json)
{
	enum check_level worst = CHECK_OK;
	bool colours = colourful();
	struct finding found;
	int code = E_OK;

	try_snapshot(&k->facts);
	if (json)
		printf("{\n  \"version\": 1,\n  \"checks\": [");
	for (unsigned i = 0; i < check_count; i++) {
		check_run(&checks[i], &k->facts, &found);
		if (found.level > worst)
			worst = found.level;
		if (found.level == CHECK_FAIL && code == E_OK)
			code = found.code;
		if (json)
			show_json(&checks[i], &found, i == 0);
		else
			show_line(&checks[i], &found, colours);
	}
	if (json)
		end_json(&k->facts, worst, code);
	return fflush(stdout) || ferror(stdout) ? E_IO : code;
}
