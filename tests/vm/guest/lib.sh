# SPDX-License-Identifier: GPL-2.0-or-later
# Functions for the host's commands: make a state worth saving, and prove later that it came back.
# The proof is made by the very shell that began it, so it can only be passed by a restored system.

# The programs under test; functions, because busybox would take its own "resume".
s2disk() { /guest/s2disk "$@"; }
s2both() { /guest/s2both "$@"; }
resume() { /guest/resume "$@"; }
s2image() { /guest/s2image "$@"; }
swap_offset() { /guest/swap-offset "$@"; }
s2bench() { /guest/s2bench "$@"; }
suspend_keygen() { /guest/suspend-keygen "$@"; }

# at_console COMMAND...: as the first boot scripts run it, with the console and no controlling terminal.
# The kernel's own lines would fall into the prompts that the host waits for.
at_console() {
	dmesg -n 1
	setsid "$@" < /dev/console
	set -- $?
	dmesg -n 7
	return "$1"
}

uptime_now() { cut -d' ' -f1 /proc/uptime; }

# A number that a background process counts up five times a second.
counter_start() {
	( i=0; while :; do i=$((i + 1)); echo $i > /run/counter; sleep 0.2; done ) &
	counter_process=$!
}

# The file is empty for a moment each time it is written.
counter_read() {
	counter_value=
	until [ -n "$counter_value" ]; do read -r counter_value < /run/counter; done
	echo "$counter_value"
}

counter_runs() {
	kill -0 "$counter_process" || return 1
	counter_first=$(counter_read)
	for _ in 1 2 3 4 5 6 7 8 9 10; do
		sleep 0.3
		[ "$(counter_read)" -gt "$counter_first" ] && return 0
	done
	return 1
}

tree_sum() {
	(cd /run/tree && find . -type f | sort | xargs sha256sum) | sha256sum
}

# disks_off: take the virtio disks away; disk_on NUMBER: give one back, under the first name that is free.
disks_off() {
	for disk in /sys/bus/virtio/drivers/virtio_blk/virtio*; do
		echo "${disk##*/}" > /sys/bus/virtio/drivers/virtio_blk/unbind
	done
}
disk_on() { echo "virtio$1" > /sys/bus/virtio/drivers/virtio_blk/bind; }

# modules_load NAME: what the list of that name has and the kernel has not.
modules_load() {
	while read -r module; do
		name=$(echo "${module%.ko}" | tr - _)
		[ -d "/sys/module/$name" ] || insmod "/lib/modules/$module" || return 1
	done < "/lib/modules/$1"
}

swap_page() { dd if="$1" bs=4096 count=1 iflag=direct 2> /dev/null; }
swap_uuid() { swap_page "$1" | dd bs=1 skip=1036 count=16 2> /dev/null | xxd -p; }
swap_active() { grep -q "^$1 " /proc/swaps; }
swap_signature() { swap_page "$1" | tail -c 10 | tr -d '\0'; }

# state_begin: start the counter and make the tree that the proof looks at.
state_begin() {
	mkdir -p /run/tree/a/b
	dd if=/dev/urandom of=/run/tree/a/random bs=64k count=32 2> /dev/null
	cp /bin/busybox /run/tree/a/b/program
	dmesg > /run/tree/text
	counter_start
	state_sum=$(tree_sum)
	state_boot=$(cat /proc/sys/kernel/random/boot_id)
	state_size=$(cat /sys/power/image_size)
	until [ -s /run/counter ]; do usleep 50000; done
}

# state_bad REASON: note one thing that did not come back as it was.
state_bad() { state_faults="$state_faults $1"; }

# state_check: does this system still have all that state_begin made? Names what is missing.
state_check() {
	state_faults=
	[ "$(cat /proc/sys/kernel/random/boot_id)" = "$state_boot" ] || state_bad boot-id
	[ "$(cat /sys/power/image_size)" = "$state_size" ] ||
		state_bad "image_size($state_size,$(cat /sys/power/image_size))"
	counter_runs || state_bad counter-stopped
	[ "$(tree_sum)" = "$state_sum" ] || state_bad tree-changed
	[ -z "$state_faults" ] || { echo "state lost:$state_faults"; return 1; }
}

# swap_check DEVICE UUID: plain swap with its old identity, active, and able to be taken off and on.
swap_check() {
	swap_active "$1" || { echo "$1 is not active"; return 1; }
	[ "$(swap_uuid "$1")" = "$2" ] || { echo "$1 has another UUID: $(swap_uuid "$1")"; return 1; }
	swap_usable "$1"
}

# swap_usable DEVICE: the signature on the disk is swap's, and swapoff and swapon work.
swap_usable() {
	[ "$(swap_signature "$1")" = SWAPSPACE2 ] ||
		{ echo "$1 has the signature $(swap_signature "$1")"; return 1; }
	if swap_active "$1"; then swapoff "$1" || return 1; fi
	swapon "$1"
}

# fill MEGABYTES [random]: take memory with a tmpfs file, of program code or of noise.
fill() {
	mkdir -p /run/fill
	if [ "${2-}" = random ]; then
		dd if=/dev/urandom of="/run/fill/$1.noise" bs=1M count="$1" 2> /dev/null
	else
		while cat /bin/busybox /lib/modules/*.ko; do :; done 2> /dev/null |
			dd of="/run/fill/$1.code" bs=1M count="$1" iflag=fullblock 2> /dev/null
	fi
}

mem_available() { sed -n 's/^MemAvailable: *\([0-9]*\) kB/\1/p' /proc/meminfo; }

swap_free() { sed -n 's/^SwapFree: *\([0-9]*\) kB/\1/p' /proc/meminfo; }

# fill_until KILOBYTES: take memory until no more than that is available, or the kernel swaps.
fill_until() {
	mkdir -p /run/fill
	fill_number=0
	fill_swap=$(swap_free)
	while [ "$(mem_available)" -gt "$1" ] && [ $((fill_swap - $(swap_free))) -lt 50000 ]; do
		fill_number=$((fill_number + 1))
		cat /bin/busybox > "/run/fill/$fill_number" || return 1
	done
}
