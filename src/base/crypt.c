/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What needs no library; crypt-gcrypt.c has the rest, crypt-none.c stands in for it. */
#include "base/crypt.h"

#include "base/clock.h"
#include "base/error.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

static const struct cipher ciphers[CIPHER_COUNT] = {
	[CIPHER_OCB] = {"aes-256-ocb", CIPHER_OCB},
	[CIPHER_GCM] = {"aes-256-gcm", CIPHER_GCM},
	[CIPHER_CHACHA20] = {"chacha20-poly1305", CIPHER_CHACHA20},
};

const struct cipher *cipher_by_id(unsigned id)
{
	return id && id < CIPHER_COUNT ? &ciphers[id] : NULL;
}

const struct cipher *cipher_by_name(const char *name)
{
	for (unsigned i = 1; i < CIPHER_COUNT; i++)
		if (!strcmp(ciphers[i].name, name))
			return &ciphers[i];
	return NULL;
}

int crypt_random(void *out, size_t n)
{
	uint8_t *p = out;

	while (n) {
		ssize_t got = getrandom(p, n, 0);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return fault(E_INTERNAL, errno, "no random bytes from the kernel");
		p += got;
		n -= (size_t)got;
	}
	return E_OK;
}

#if defined(__x86_64__) /* __builtin_cpu_supports() knows rdrnd in newer compilers only */
__attribute__((target("rdrnd"))) static void processor_random(uint64_t out[4])
{
	unsigned long long v = 0;
	unsigned a, b, c = 0, d;

	if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_RDRND))
		return;
	for (int i = 0; i < 4; i++) {
		for (int tries = 0; tries < 10 && !__builtin_ia32_rdrand64_step(&v); tries++)
			;
		out[i] = v;
	}
}
#else
static void processor_random(uint64_t out[4])
{
	(void)out;
}
#endif

int crypt_random_fresh(uint8_t out[CRYPT_KEY])
{
	struct {
		uint8_t kernel[CRYPT_KEY];
		uint64_t processor[4], clock;
	} drawn = {.clock = clock_ns()};
	int r = crypt_random(drawn.kernel, sizeof drawn.kernel);

	processor_random(drawn.processor);
	if (r == E_OK)
		r = hkdf((struct bytes){&drawn, sizeof drawn}, (struct bytes){NULL, 0},
			 (struct bytes){"dormouse fresh 1", 16}, out, CRYPT_KEY);
	explicit_bzero(&drawn, sizeof drawn);
	return r;
}

bool crypt_equal(const void *a, const void *b, size_t n)
{
	const volatile uint8_t *x = a, *y = b;
	uint8_t differ = 0;

	for (size_t i = 0; i < n; i++)
		differ |= x[i] ^ y[i];
	return !differ;
}
