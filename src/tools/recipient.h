/* SPDX-License-Identifier: GPL-2.0-or-later */
/* s2disk's key step: for whom an image is sealed. */
#ifndef DORMOUSE_TOOLS_RECIPIENT_H
#define DORMOUSE_TOOLS_RECIPIENT_H

#include "system/key-file.h"
#include "tools/config.h"

/*
 * With `encrypt = y': makes the recipient that the configuration names, by key
 * file, key pair or a passphrase that is asked for now; says with -v which.
 * Nothing secret but the recipient's authenticator is left in memory.  E_OK, or
 * what makes hibernating impossible, with the cure noted.
 */
int recipient_make(const struct config *c, struct recipient *out);

enum { RECIPIENT_TEXT = 512 };

/* How images are sealed, for people, without asking anybody: E_OK, or what keeps them from being sealed. */
int recipient_look(const struct config *c, char text[RECIPIENT_TEXT]);

#endif
