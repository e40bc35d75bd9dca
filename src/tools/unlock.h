/* SPDX-License-Identifier: GPL-2.0-or-later */
/* resume's key step: from a sealed image and a person, or a key file, to its key. */
#ifndef DORMOUSE_TOOLS_UNLOCK_H
#define DORMOUSE_TOOLS_UNLOCK_H

#include "image/ahead.h"
#include "system/key-file.h"
#include "tools/config.h"

struct unlock {
	const struct config *conf;
	struct image *image; /* opened and judged; its trailer may be read for a look */
	const char *path;    /* of its device, for the questions */
	struct seal *seal;   /* gets the key */
	struct ahead *ahead; /* what was read meanwhile, stopped; NULL or the caller's to close */
};

/*
 * E_OK: the seal is open.  E_NOANSWER: nobody was there, or the person wants
 * the power off: the image is to be kept.  Everything else means that the boot
 * goes on without the image: E_DECLINED by choice, E_NOASK, E_ABORTED by a
 * signal, and what is wrong with the image itself.
 */
int unlock_image(struct unlock *u);

#endif
