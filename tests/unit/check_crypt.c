/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Published vectors for every primitive through the wrappers, and the pool that feeds the library. */
#include "config.h"

#include "base/crypt.h"
#include "base/error.h"
#include "base/pool.h"
#include "fakes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEX_MOST = 512 };

/* Bytes from hexadecimal, in one of a few buffers used in turn. */
static struct bytes hex(const char *text)
{
	static uint8_t room[8][HEX_MOST];
	static unsigned turn;
	uint8_t *out = room[turn++ % 8];
	size_t n = strlen(text) / 2;

	must(n <= HEX_MOST);
	for (size_t i = 0; i < n; i++) {
		unsigned v;
		must(sscanf(text + 2 * i, "%2x", &v) == 1);
		out[i] = (uint8_t)v;
	}
	return (struct bytes){out, n};
}

static void start(void)
{
	ck_assert_int_eq(crypt_start(), E_OK);
	ck_assert_int_eq(crypt_start(), E_OK);
}

static void check_bytes(const uint8_t *got, const char *want)
{
	struct bytes w = hex(want);

	ck_assert_mem_eq(got, w.at, w.n);
}

/* ---- ciphers ---- */

struct aead_vector {
	enum cipher_id cipher;
	const char *key, *nonce, *data, *plain, *sealed, *tag;
};

static const struct aead_vector aead_vectors[] = {
	/* McGrew and Viega, The Galois/Counter Mode of Operation, test cases 13, 14 and 16 */
	{CIPHER_GCM, "0000000000000000000000000000000000000000000000000000000000000000", "000000000000000000000000", "",
	 "", "", "530f8afbc74536b9a963b4f1c4cb738b"},
	{CIPHER_GCM, "0000000000000000000000000000000000000000000000000000000000000000", "000000000000000000000000", "",
	 "00000000000000000000000000000000", "cea7403d4d606b6e074ec5d3baf39d18", "d0d1c8a799996bf0265b98b5d48ab919"},
	{CIPHER_GCM, "feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308", "cafebabefacedbaddecaf888",
	 "feedfacedeadbeeffeedfacedeadbeefabaddad2",
	 "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449a6b525b16aedf5aa0d"
	 "e657ba637b39",
	 "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa8cb08e48590dbb3da7b08b1056828838c5f61e6393ba"
	 "7a0abcc9f662",
	 "76fc6ece0f4e1768cddf8853bb2d551b"},
	/* RFC 8439, 2.8.2 */
	{CIPHER_CHACHA20, "808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9f",
	 "070000004041424344454647", "50515253c0c1c2c3c4c5c6c7",
	 "4c616469657320616e642047656e746c656d656e206f662074686520636c617373206f66202739393a204966204920636f756c64206f"
	 "6666657220796f75206f6e6c79206f6e652074697020666f7220746865206675747572652c2073756e73637265656e20776f756c6420"
	 "62652069742e",
	 "d31a8d34648e60db7b86afbc53ef7ec2a4aded51296e08fea9e2b5a736ee62d63dbea45e8ca9671282fafb69da92728b1a71de0a9e06"
	 "0b2905d6a5b67ecd3b3692ddbd7f2d778b8c9803aee328091b58fab324e4fad675945585808b4831d7bc3ff4def08e4b7a9de576d265"
	 "86cec64b6116",
	 "1ae10b594f09e26a7e902ecbd0600691"},
};

static struct aead *open_aead(enum cipher_id cipher, const uint8_t *key)
{
	struct aead *a;

	start();
	ck_assert_int_eq(aead_open(&a, cipher_by_id(cipher)), E_OK);
	ck_assert_int_eq(aead_key(a, key), E_OK);
	return a;
}

static struct aead_with with(const uint8_t *nonce, struct bytes data)
{
	struct aead_with w = {.data = data.at, .n = data.n};

	memcpy(w.nonce, nonce, CRYPT_NONCE);
	return w;
}

static void check_aead_vectors(int row)
{
	const struct aead_vector *v = &aead_vectors[row];
	struct bytes plain = hex(v->plain), sealed = hex(v->sealed), tag = hex(v->tag);
	struct aead *a = open_aead(v->cipher, hex(v->key).at);
	struct aead_with w = with(hex(v->nonce).at, hex(v->data));
	uint8_t out[HEX_MOST] = {0}, in_place[HEX_MOST], got[CRYPT_TAG];

	for (int twice = 0; twice < 2; twice++) {
		ck_assert_int_eq(aead_seal(a, &w, out, plain.at, plain.n, got), E_OK);
		ck_assert_mem_eq(out, sealed.at, sealed.n);
		ck_assert_mem_eq(got, tag.at, tag.n);
		memcpy(in_place, plain.at, plain.n);
		ck_assert_int_eq(aead_seal(a, &w, in_place, in_place, plain.n, got), E_OK);
		ck_assert_mem_eq(in_place, sealed.at, sealed.n);
		ck_assert(aead_unseal(a, &w, in_place, in_place, plain.n, tag.at));
		ck_assert_mem_eq(in_place, plain.at, plain.n);
	}
	got[3] ^= 1;
	ck_assert(!aead_unseal(a, &w, out, sealed.at, sealed.n, got));
	aead_close(a);
}

START_TEST(test_aead_vectors)
{
	check_aead_vectors(_i);
}
END_TEST

/* The iterated test of RFC 7253, appendix A, for AES-256 with tags of 128 bits. */
struct iterated {
	struct aead *a;
	uint8_t all[1 << 17];
	size_t n;
};

static void ocb_append(struct iterated *t, unsigned number, struct bytes data, struct bytes plain)
{
	uint8_t nonce[CRYPT_NONCE] = {0};

	nonce[10] = (uint8_t)(number >> 8);
	nonce[11] = (uint8_t)number;
	struct aead_with w = with(nonce, data);
	must(t->n + plain.n + CRYPT_TAG <= sizeof t->all);
	must(aead_seal(t->a, &w, t->all + t->n, plain.at, plain.n, t->all + t->n + plain.n) == E_OK);
	t->n += plain.n + CRYPT_TAG;
}

static void check_ocb_iterated(int row)
{
	(void)row;
	static struct iterated t;
	static const uint8_t zeros[128], key[CRYPT_KEY] = {[CRYPT_KEY - 1] = 128};
	const struct bytes none = {zeros, 0};

	t.n = 0;
	t.a = open_aead(CIPHER_OCB, key);
	for (unsigned i = 0; i < 128; i++) {
		struct bytes s = {zeros, i};
		ocb_append(&t, 3 * i + 1, s, s);
		ocb_append(&t, 3 * i + 2, none, s);
		ocb_append(&t, 3 * i + 3, s, none);
	}
	size_t n = t.n;
	ocb_append(&t, 385, (struct bytes){t.all, n}, none);
	check_bytes(t.all + n, "d90eb8e9c977c88b79dd793d7ffa161c");
	aead_close(t.a);
}

START_TEST(test_ocb_iterated)
{
	check_ocb_iterated(_i);
}
END_TEST

/* A context that was made to forget seals as one with a key of zeros does. */
START_TEST(test_forget)
{
	static const uint8_t zeros[CRYPT_KEY];
	uint8_t plain[100] = "plain", one[100], two[100], tag[2][CRYPT_TAG];
	struct aead_with w = {.n = 0};

	for (unsigned c = 1; c < CIPHER_COUNT; c++) {
		struct aead *a = open_aead((enum cipher_id)c, (const uint8_t *)"0123456789abcdef0123456789abcdef");
		struct aead *b = open_aead((enum cipher_id)c, zeros);
		ck_assert_int_eq(aead_seal(a, &w, one, plain, sizeof plain, tag[0]), E_OK);
		ck_assert_int_eq(aead_seal(b, &w, two, plain, sizeof plain, tag[1]), E_OK);
		ck_assert_mem_ne(one, two, sizeof one);
		aead_forget(a);
		ck_assert_int_eq(aead_seal(a, &w, one, plain, sizeof plain, tag[0]), E_OK);
		ck_assert_mem_eq(one, two, sizeof one);
		ck_assert_mem_eq(tag[0], tag[1], CRYPT_TAG);
		aead_close(a);
		aead_close(b);
	}
	aead_forget(NULL);
	aead_close(NULL);
}
END_TEST

START_TEST(test_cipher_names)
{
	start();
	for (unsigned i = 1; i < CIPHER_COUNT; i++)
		ck_assert_ptr_eq(cipher_by_name(cipher_by_id(i)->name), cipher_by_id(i));
	ck_assert_ptr_null(cipher_by_id(0));
	ck_assert_ptr_null(cipher_by_id(CIPHER_COUNT));
	ck_assert_ptr_null(cipher_by_name("aes-256-cbc"));
	ck_assert_ptr_nonnull(cipher_default());
}
END_TEST

/* ---- hashes and keys ---- */

static void check_blake2b(int row)
{
	(void)row;
	uint8_t out[CRYPT_HASH], long_one[4096];
	struct hash *h;

	start();
	hash_all((const uint8_t *)"", 0, out);
	check_bytes(out, "0e5751c026e543b2e8ab2eb06099daa1d1e5df47778f7787faab45cdf12fe3a8");
	hash_all((const uint8_t *)"abc", 3, out);
	check_bytes(out, "bddd813c634239723171ef3fee98579b94964e3bb1cb3e427262c8c068d52319");
	for (size_t i = 0; i < sizeof long_one; i++)
		long_one[i] = (uint8_t)i;
	ck_assert_int_eq(hash_open(&h), E_OK);
	for (int twice = 0; twice < 2; twice++) {
		hash_reset(h);
		hash_add(h, long_one, 1000);
		hash_add(h, long_one + 1000, sizeof long_one - 1000);
		hash_end(h, out);
		check_bytes(out, "81baab4ea5d75a0aa53b8780ae5dbd7c8dac7f07e7c103644399492bb9ea6f87");
	}
	hash_close(h);
}

START_TEST(test_blake2b)
{
	check_blake2b(_i);
}
END_TEST

/* RFC 5869, appendix A, test cases 1 to 3. */
static const struct {
	const char *secret, *salt, *info, *out;
} hkdf_vectors[] = {
	{"0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b", "000102030405060708090a0b0c", "f0f1f2f3f4f5f6f7f8f9",
	 "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865"},
	{"000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f202122232425262728292a2b2c2d2e2f303132333435"
	 "363738393a3b3c3d3e3f404142434445464748494a4b4c4d4e4f",
	 "606162636465666768696a6b6c6d6e6f707172737475767778797a7b7c7d7e7f808182838485868788898a8b8c8d8e8f909192939495"
	 "969798999a9b9c9d9e9fa0a1a2a3a4a5a6a7a8a9aaabacadaeaf",
	 "b0b1b2b3b4b5b6b7b8b9babbbcbdbebfc0c1c2c3c4c5c6c7c8c9cacbcccdcecfd0d1d2d3d4d5d6d7d8d9dadbdcdddedfe0e1e2e3e4e5"
	 "e6e7e8e9eaebecedeeeff0f1f2f3f4f5f6f7f8f9fafbfcfdfeff",
	 "b11e398dc80327a1c8e7f78c596a49344f012eda2d4efad8a050cc4c19afa97c59045a99cac7827271cb41c65e590e09da3275600c2f"
	 "09b8367793a9aca3db71cc30c58179ec3e87c14c01d5c1f3434f1d87"},
	{"0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b", "", "",
	 "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8"},
};

static void check_hkdf(int row)
{
	uint8_t out[HEX_MOST];
	struct bytes want = hex(hkdf_vectors[row].out);

	start();
	ck_assert_int_eq(hkdf(hex(hkdf_vectors[row].secret), hex(hkdf_vectors[row].salt), hex(hkdf_vectors[row].info),
			      out, want.n),
			 E_OK);
	ck_assert_mem_eq(out, want.at, want.n);
}

START_TEST(test_hkdf)
{
	check_hkdf(_i);
}
END_TEST

/* RFC 7748, 5.2 and 6.1; no point: the base point. */
static const struct {
	const char *scalar, *point, *out;
} x25519_vectors[] = {
	{"a546e36bf0527c9d3b16154b82465edd62144c0ac1fc5a18506a2244ba449ac4",
	 "e6db6867583030db3594c1a424b15f7c726624ec26b3353b10a903a6d0ab1c4c",
	 "c3da55379de9c6908e94ea4df28d084f32eccf03491c71f754b4075577a28552"},
	{"4b66e9d4d1b4673c5ad22691957d6af5c11b6421e0ea01d42ca4169e7918ba0d",
	 "e5210f12786811d3f4b7959d0538ae2c31dbe7106fc03c3efc4cd549c715a493",
	 "95cbde9476e8907d7aade45cb4b873f88b595a68799fa152e6f8f7647aac7957"},
	{"77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a", "",
	 "8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a"},
	{"5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb", "",
	 "de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f"},
	{"77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a",
	 "de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f",
	 "4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742"},
};

static void check_x25519(int row)
{
	struct bytes point = hex(x25519_vectors[row].point);
	uint8_t out[CRYPT_POINT];

	start();
	ck_assert_int_eq(x25519(out, hex(x25519_vectors[row].scalar).at, point.n ? point.at : NULL), E_OK);
	check_bytes(out, x25519_vectors[row].out);
}

START_TEST(test_x25519)
{
	check_x25519(_i);
}
END_TEST

/* Points of small order give zeros with every scalar (RFC 7748, 6.1), and zeros are no secret. */
START_TEST(test_x25519_small_order)
{
	static const char *const points[] = {
		"0000000000000000000000000000000000000000000000000000000000000000",
		"0100000000000000000000000000000000000000000000000000000000000000",
		"e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
		"5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
		"ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
	};
	uint8_t out[CRYPT_POINT];

	start();
	ck_assert_int_eq(x25519(out, hex(x25519_vectors[0].scalar).at, hex(points[_i]).at), E_CORRUPT);
}
END_TEST

static void check_argon2id(int row)
{
	(void)row;
	/* RFC 9106, 5.3 */
	static const struct argon2_cost rfc = {32, 3, 4};
	const struct argon2_input in = {hex("0101010101010101010101010101010101010101010101010101010101010101"),
					hex("02020202020202020202020202020202"), hex("0303030303030303"),
					hex("040404040404040404040404")};
	/* The reference program: argon2 somesalt -id -t 2 -k 256 -p 1 -l 64, and -t 3 -k 1024 -p 4 */
	static const struct argon2_cost one = {256, 2, 1}, four = {1024, 3, 4};
	const struct argon2_input word = {.passphrase = {"password", 8}, .salt = {"somesalt", 8}};
	uint8_t out[64];

	start();
	ck_assert_int_eq(argon2id(&in, &rfc, out, 32), E_OK);
	check_bytes(out, "0d640df58d78766c08c037a34a8b53c9d01ef0452d75b65eb52520e96b01e659");
	ck_assert_int_eq(argon2id(&word, &one, out, 64), E_OK);
	check_bytes(out, "e38b944e9f2ff73c3831c2da01b901c8302eeee3faca76018b2615cd39935f07"
			 "342468fc5d41d51317cfcc81ccb5e7bd657813a7f33585a1f277d0e613f28c72");
	ck_assert_int_eq(argon2id(&word, &four, out, 64), E_OK);
	check_bytes(out, "c4758d57b4061879b1f18adffae44b53f83026731f7f305c45ff4f9074dce6da"
			 "cfd076c10c29bca017a4962982e7e262e4e4de40429a2295cc9319a40031d0d4");
}

START_TEST(test_argon2id)
{
	check_argon2id(_i);
}
END_TEST

START_TEST(test_equal_and_random)
{
	uint8_t a[64], b[64];

	ck_assert_int_eq(crypt_random(a, sizeof a), E_OK);
	ck_assert_int_eq(crypt_random(b, sizeof b), E_OK);
	start();
	for (int i = 0; i < 2; i++) {
		ck_assert(!crypt_equal(a, b, CRYPT_KEY));
		ck_assert_int_eq(crypt_random_fresh(a), E_OK);
		ck_assert_int_eq(crypt_random_fresh(b), E_OK);
	}
	ck_assert(!crypt_equal(a, b, sizeof a));
	memcpy(b, a, sizeof a);
	for (size_t i = 0; i < 8 * sizeof a; i++) {
		b[i / 8] ^= (uint8_t)(1 << i % 8);
		must(!crypt_equal(a, b, sizeof a));
		b[i / 8] ^= (uint8_t)(1 << i % 8);
	}
	ck_assert(crypt_equal(a, b, sizeof a));
	ck_assert(crypt_equal(a, b + 1, 0));
}
END_TEST

/* ---- the pool ---- */

/* What every primitive takes it gives back. */
START_TEST(test_nothing_leaks)
{
	size_t before = 0;

	for (int i = 0; i < 3; i++) {
		check_aead_vectors(i);
		check_ocb_iterated(0);
		check_blake2b(0);
		check_hkdf(i);
		check_x25519(i);
		check_argon2id(0);
		if (!i) /* a library keeps a little for ever from a first use */
			before = pool_used();
		ck_assert_uint_lt(before, 4096);
		ck_assert_uint_eq(pool_used(), before);
	}
}
END_TEST

START_TEST(test_pool_pieces)
{
	enum { PIECES = 200, STEPS = 20000 };
	uint8_t *piece[PIECES] = {NULL};
	size_t size[PIECES] = {0};
	uint64_t random = 1;
	size_t before = pool_used();

	ck_assert_int_eq(pool_reserve(PIECES * 700), E_OK);
	for (int step = 0; step < STEPS; step++) {
		unsigned i = (unsigned)(fake_random(&random) % PIECES);
		size_t n = fake_random(&random) % 600;
		for (size_t k = 0; k < size[i]; k++)
			must(piece[i][k] == (uint8_t)(i + 1));
		if (fake_random(&random) % 3) {
			pool_free(piece[i]);
			piece[i] = pool_alloc(n);
		} else {
			piece[i] = pool_resize(piece[i], n);
		}
		must(piece[i] && (uintptr_t)piece[i] % POOL_ALIGN == 0);
		memset(piece[i], (int)i + 1, n);
		size[i] = n;
	}
	for (unsigned i = 0; i < PIECES; i++)
		pool_free(piece[i]);
	pool_free(NULL);
	ck_assert_uint_eq(pool_used(), before);
	/* What was split has come together again. */
	void *whole = pool_alloc(PIECES * 700);
	ck_assert_ptr_nonnull(whole);
	pool_free(whole);
}
END_TEST

START_TEST(test_pool_wipes)
{
	uint8_t *all = NULL, *p;

	ck_assert_int_eq(pool_reserve(10000), E_OK);
	all = pool_alloc(10000);
	memset(all, 0x5a, 10000);
	pool_free(all);
	p = pool_alloc(5000); /* first fit: the same memory */
	ck_assert_ptr_eq(p, all);
	for (size_t i = 0; i < 5000; i++)
		must(p[i] == 0);
	pool_free(p);
}
END_TEST

/* Requests that fit nowhere are refused and change nothing; large ones do not eat the small ones' room. */
START_TEST(test_pool_bounds)
{
	ck_assert_int_eq(pool_reserve(1000), E_OK);
	size_t before = pool_used();
	ck_assert_ptr_null(pool_alloc(SIZE_MAX));
	ck_assert_ptr_null(pool_alloc(SIZE_MAX - 8));
	ck_assert_ptr_null(pool_alloc(POOL_OWN_MAPPING - 64));
	ck_assert_uint_eq(pool_used(), before);
	uint8_t *large = pool_alloc(4 << 20);
	ck_assert_ptr_nonnull(large);
	memset(large, 1, 4 << 20);
	ck_assert_uint_ge(pool_used(), before + (4 << 20));
	pool_free(large);
	ck_assert_uint_eq(pool_used(), before);
	pool_close();
	ck_assert_uint_eq(pool_used(), 0);
	ck_assert_ptr_null(pool_alloc(16));
}
END_TEST

#define ROWS(a) (int)(sizeof(a) / sizeof(a)[0])

static Suite *suite(void)
{
	Suite *s = suite_create("check_crypt");
	TCase *t = tcase_create("primitives"), *p = tcase_create("pool");

	tcase_add_loop_test(t, test_aead_vectors, 0, ROWS(aead_vectors));
	tcase_add_test(t, test_ocb_iterated);
	tcase_add_test(t, test_forget);
	tcase_add_test(t, test_cipher_names);
	tcase_add_test(t, test_blake2b);
	tcase_add_loop_test(t, test_hkdf, 0, ROWS(hkdf_vectors));
	tcase_add_loop_test(t, test_x25519, 0, ROWS(x25519_vectors));
	tcase_add_loop_test(t, test_x25519_small_order, 0, 5);
	tcase_add_test(t, test_argon2id);
	tcase_add_test(t, test_equal_and_random);
	tcase_add_test(t, test_nothing_leaks);
	suite_add_tcase(s, t);
	tcase_add_test(p, test_pool_pieces);
	tcase_add_test(p, test_pool_wipes);
	tcase_add_test(p, test_pool_bounds);
	suite_add_tcase(s, p);
	return s;
}

int main(void)
{
	SRunner *r = srunner_create(crypt_built_in() ? suite() : suite_create("check_crypt"));

	srunner_run_all(r, CK_NORMAL);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
