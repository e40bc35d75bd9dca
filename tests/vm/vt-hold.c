/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * vt-hold DEVICE - keep a virtual terminal in front as a display server does that
 * hangs: the kernel has to ask before it may switch away, and is never answered.
 */
#include <fcntl.h>
#include <linux/vt.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	struct vt_mode mode = {.mode = VT_PROCESS, .relsig = SIGUSR1, .acqsig = SIGUSR2};
	int fd = argc == 2 ? open(argv[1], O_RDWR | O_NOCTTY) : -1;

	signal(SIGUSR1, SIG_IGN);
	signal(SIGUSR2, SIG_IGN);
	if (fd < 0 || ioctl(fd, VT_SETMODE, &mode)) {
		perror("vt-hold");
		return 1;
	}
	for (;;)
		pause();
}
