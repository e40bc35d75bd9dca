/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tools/recipient.h"

#include "base/error.h"
#include "base/log.h"
#include "system/ask.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

/* What the person is to do about it stands first: it is what is read. */
static int nobody(int code, const char *what)
{
	fault_clear();
	return fault(code, 0, "%s; run suspend-keygen once, and hibernating asks for nothing", what);
}

static int by_passphrase(const struct config *c, struct recipient *out)
{
	struct ask a;
	int r = ask_open(&a, &ask_at_save, ASK_SAVE_MS);

	if (r == E_OK)
		r = ask_new_secret(&a, "New passphrase for the image: ", "Again: ");
	if (r == E_OK)
		r = recipient_from_passphrase(out, c->cipher, a.answer, a.length, NULL);
	ask_close(&a);
	if (r == E_NOASK)
		return nobody(r, "no terminal, no plymouth and no agent to ask for a passphrase");
	if (r == E_NOANSWER)
		return nobody(r, "nobody gave a passphrase within 90 seconds");
	return r;
}

static bool has_pair(const struct config *c)
{
	return c->key_pair_set || !access(c->key_pair, F_OK) || errno != ENOENT;
}

static int by_what_there_is(const struct config *c, struct recipient *out)
{
	if (c->key_file[0])
		return recipient_from_key_file(out, c->cipher, c->key_file);
	if (has_pair(c))
		return recipient_from_key_pair(out, c->cipher, c->key_pair);
	return by_passphrase(c, out);
}

int recipient_look(const struct config *c, char text[RECIPIENT_TEXT])
{
	struct recipient to = {0};
	char whom[KEY_TEXT];

	if (!c->encrypt) {
		snprintf(text, RECIPIENT_TEXT, "images are not sealed: whoever has the disk has the memory");
		return E_OK;
	}
	if (!c->key_file[0] && !has_pair(c)) {
		snprintf(text, RECIPIENT_TEXT, "images are sealed for a passphrase, which is asked for at each save");
		return E_OK;
	}
	int r = by_what_there_is(c, &to);
	if (r == E_OK)
		snprintf(text, RECIPIENT_TEXT, "images are sealed %s", key_describe(&to.slot, whom));
	else
		snprintf(text, RECIPIENT_TEXT, "`encrypt = y', but %s", fault_text());
	fault_clear();
	explicit_bzero(&to, sizeof to);
	return r;
}

int recipient_make(const struct config *c, struct recipient *out)
{
	char text[KEY_TEXT];

	prctl(PR_SET_DUMPABLE, 0);
	int r = by_what_there_is(c, out);
	if (r == E_UNSUPPORTED)
		return r;
	crypt_burn_stack();
	if (r == E_OK)
		log_verbose("the image will be sealed %s", key_describe(&out->slot, text));
	return r;
}
