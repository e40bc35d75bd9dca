/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * suspend.conf and "-P key = value": uswsusp's keys with their meaning, and ours.
 * A value is never cut or read as something else: what cannot be read exactly
 * is E_CONF, with file, line, the line itself and a cure in fault_text().
 */
#ifndef DORMOUSE_TOOLS_CONFIG_H
#define DORMOUSE_TOOLS_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

enum { CONFIG_PATH = 256, CONFIG_NOTES = 16 };

enum config_codec { CODEC_CHOICE_NONE, CODEC_CHOICE_LZO, CODEC_CHOICE_LZ4, CODEC_CHOICE_ZSTD, CODEC_CHOICE_DEFAULT };

struct config {
	char snapshot_device[CONFIG_PATH]; /* /dev/snapshot */
	char resume_device[CONFIG_PATH];   /* "" when not set: path, UUID=, LABEL=, PARTUUID=, PARTLABEL= */
	uint64_t resume_offset;		   /* in pages; valid when resume_offset_set */
	bool resume_offset_set;
	bool image_size_set;
	uint64_t image_size;	/* bytes; 0 asks for the smallest */
	unsigned image_percent; /* "40%" of RAM when not 0, instead of image_size */
	bool compress;		/* default true */
	enum config_codec codec;
	int level;			    /* zstd level or lz4 acceleration, 0 = the codec's default */
	bool threads_set;		    /* false or "y": every core the process may run on */
	unsigned threads;		    /* valid when threads_set; 0 = inline */
	uint32_t shutdown;		    /* enum shutdown_method; default platform */
	unsigned resume_pause;		    /* seconds */
	unsigned disk_timeout;		    /* seconds without any answer from the disk, 0 = wait for ever */
	unsigned resume_wait;		    /* seconds to wait for the device, default 10 */
	int suspend_loglevel, max_loglevel; /* -1 = leave alone */
	bool encrypt;
	unsigned cipher;	    /* enum cipher_id; CIPHER_NONE: what this processor does best */
	char key_file[CONFIG_PATH]; /* "" when not set */
	char key_pair[CONFIG_PATH]; /* /etc/dormouse.key */
	bool key_pair_set;	    /* then it has to exist */
	unsigned passphrase_tries;
	unsigned passphrase_timeout; /* seconds since the last key */
	bool force;		     /* resume although file systems are mounted */
	char file[CONFIG_PATH];	     /* what config_read() has read, "" = none */
	/* What was accepted without effect, or unknown: one line each, for the tool to print. */
	unsigned note_count;
	char notes[CONFIG_NOTES][160];
};

void config_default(struct config *c);

/*
 * Reads @path into @c.  E_OK also when @path is NULL and neither
 * /etc/suspend.conf nor /etc/uswsusp.conf exists.  A file that is not a plain
 * one, owned by neither root nor the caller, or writable by group or others is
 * refused.
 */
int config_read(struct config *c, const char *path);

/* The same with @path NULL, below another root than "". */
int config_read_usual(struct config *c, const char *root);

/* One "key = value"; @where names its origin in errors ("-P", "suspend.conf:3"). */
int config_set(struct config *c, const char *where, const char *line);

#endif
