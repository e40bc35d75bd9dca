/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Pages in and out of /dev/snapshot.  read() and write() move one page a call,
 * readv() and writev() loop over their vector; 64 pages a call were the
 * fastest measured.  Whole pages only: after one short transfer the rest of
 * the stream is lost.
 */
#include "system/hibernate.h"

#include "base/bytes.h"
#include "base/error.h"

#include <errno.h>

enum { PAGES_A_CALL = 64 };

static int vector(struct iovec *v, uint8_t *buf, uint32_t n, uint32_t page_size)
{
	int count = 0;

	for (; n && count < PAGES_A_CALL; count++, buf += page_size, n -= page_size)
		v[count] = (struct iovec){buf, page_size};
	return count;
}

static int source_read(struct page_source *src, uint8_t *buf, uint32_t n)
{
	struct kernel_source *s = (struct kernel_source *)src;
	struct iovec v[PAGES_A_CALL];

	while (n) {
		ssize_t got = s->kernel->ops->readv(s->kernel, v, vector(v, buf, n, s->page_size));

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return fault(E_SNAPSHOT, errno, "cannot read the kernel's image");
		if (got == 0 || got % s->page_size)
			return fault(E_SNAPSHOT, 0, "the kernel's image ended %u bytes early", n);
		buf += got;
		n -= (uint32_t)got;
	}
	return E_OK;
}

static int sink_failed(int e)
{
	if (e == ENOMEM)
		return fault(E_MEMORY, e, "the kernel cannot hold the image");
	/* It compares the header page with itself: memory map, page counts, version. */
	if (e == EPERM || e == ENODEV || e == EINVAL)
		return fault(E_RESTORE, e,
			     "the kernel does not take the image: it was made by another kernel, or with other memory, "
			     "devices or firmware");
	return fault(E_RESTORE, e, "cannot hand the image to the kernel");
}

static int sink_write(struct page_sink *sink, const uint8_t *buf, uint32_t n)
{
	struct kernel_sink *s = (struct kernel_sink *)sink;
	struct iovec v[PAGES_A_CALL];

	while (n) {
		ssize_t put = s->kernel->ops->writev(s->kernel, v, vector(v, (uint8_t *)buf, n, s->page_size));

		if (put < 0 && errno == EINTR)
			continue;
		if (put <= 0 || put % s->page_size)
			return sink_failed(put < 0 ? errno : EIO);
		buf += put;
		n -= (uint32_t)put;
	}
	return E_OK;
}

static int swap_take(struct swap_pages *p, uint64_t *places, uint32_t want, uint32_t *got)
{
	struct kernel_swap *s = (struct kernel_swap *)p;

	for (*got = 0; *got < want; ++*got) {
		int e = s->kernel->ops->call(s->kernel, KERNEL_ALLOC_PAGE, 0, &places[*got]);

		if (e == ENOSPC)
			return E_OK;
		if (e)
			return fault(E_SNAPSHOT, e, "the kernel gives no swap page");
	}
	return E_OK;
}

void kernel_source_open(struct kernel_source *s, struct kernel *k, uint32_t page_size)
{
	*s = (struct kernel_source){{source_read}, k, page_size};
}

void kernel_sink_open(struct kernel_sink *s, struct kernel *k, uint32_t page_size)
{
	*s = (struct kernel_sink){{sink_write}, k, page_size};
}

void kernel_swap_open(struct kernel_swap *s, struct kernel *k)
{
	*s = (struct kernel_swap){{swap_take}, k};
}
