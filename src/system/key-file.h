/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Keys that lie in files: a raw key file, and the machine's key pair.
 *
 * Both are read only when they are plain files that belong to root or the
 * caller and that nobody else may read or write; else E_CONF with the cure.
 */
#ifndef DORMOUSE_SYSTEM_KEY_FILE_H
#define DORMOUSE_SYSTEM_KEY_FILE_H

#include "image/seal.h"

enum { KEY_FILE_LEAST = 16, KEY_FILE_MOST = 64 << 10 /* bytes */ };

#define KEY_PAIR_PATH "/etc/dormouse.key"

/* As recipient_from_key_bytes() and seal_open_key_bytes(), wiping what was read. */
int recipient_from_key_file(struct recipient *to, unsigned cipher, const char *path);
int seal_open_key_file(struct seal *s, const struct header *h, const char *path);

/* As recipient_from_pair(). */
int recipient_from_key_pair(struct recipient *to, unsigned cipher, const char *path);

/*
 * The pair's file: lines of `name = value' with a check line at the end.
 * key_pair_write() makes it anew beside @path, 0600, and renames; with
 * @replace false an existing one is left alone: E_CONF.
 */
/* E_CONF, for a path where something lies already. */
int key_pair_exists(const char *path);
int key_pair_read(struct key_pair *pair, const char *path);
int key_pair_write(const struct key_pair *pair, const char *path, bool replace);

#endif
