/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The key slot of a sealed image's fixed header (doc/image-format.md, section 7). */
#include "image/format.h"

#include "base/bytes.h"
#include "base/error.h"

#include <string.h>

enum {
	S_MODE,
	S_CIPHER,
	S_MEMORY = 4,
	S_PASSES = 8,
	S_LANES = 12,
	S_SALT = 16,
	S_EPHEMERAL = 32,
	S_CHECK = 64,
	S_ID = 80,
	S_WRAPPED = 96
};

void key_slot_put(uint8_t out[KEY_SLOT], const struct key_slot *s)
{
	memset(out, 0, KEY_SLOT);
	out[S_MODE] = s->mode;
	out[S_CIPHER] = s->cipher;
	put_le32(out + S_MEMORY, s->cost.memory);
	put_le32(out + S_PASSES, s->cost.passes);
	put_le32(out + S_LANES, s->cost.lanes);
	memcpy(out + S_SALT, s->salt, sizeof s->salt);
	memcpy(out + S_EPHEMERAL, s->ephemeral, sizeof s->ephemeral);
	memcpy(out + S_CHECK, s->check, sizeof s->check);
	memcpy(out + S_ID, s->id, sizeof s->id);
	memcpy(out + S_WRAPPED, s->wrapped, sizeof s->wrapped);
}

bool key_cost_ok(const struct argon2_cost *c)
{
	return c->passes && c->passes <= KEY_PASSES_MAX && c->lanes && c->lanes <= KEY_LANES_MAX &&
	       c->memory >= 8 * c->lanes && c->memory <= KEY_MEMORY_MAX;
}

int key_slot_get(struct key_slot *s, const uint8_t in[KEY_SLOT])
{
	s->mode = in[S_MODE];
	s->cipher = in[S_CIPHER];
	s->cost.memory = get_le32(in + S_MEMORY);
	s->cost.passes = get_le32(in + S_PASSES);
	s->cost.lanes = get_le32(in + S_LANES);
	memcpy(s->salt, in + S_SALT, sizeof s->salt);
	memcpy(s->ephemeral, in + S_EPHEMERAL, sizeof s->ephemeral);
	memcpy(s->check, in + S_CHECK, sizeof s->check);
	memcpy(s->id, in + S_ID, sizeof s->id);
	memcpy(s->wrapped, in + S_WRAPPED, sizeof s->wrapped);
	if (s->mode < KEY_MODE_PASSPHRASE || s->mode > KEY_MODE_FILE)
		return fault(E_UNSUPPORTED, 0, "key slot: the image is sealed in a way (%u) unknown to this program",
			     s->mode);
	if (!cipher_by_id(s->cipher))
		return fault(E_UNSUPPORTED, 0, "key slot: cipher %u is unknown to this program", s->cipher);
	if (s->mode != KEY_MODE_FILE && !key_cost_ok(&s->cost))
		return fault(E_CORRUPT, 0, "key slot: Argon2id with %u KiB, %u passes, %u lanes is out of bounds",
			     s->cost.memory, s->cost.passes, s->cost.lanes);
	return E_OK;
}
