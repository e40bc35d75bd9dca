/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One code space for everything that can go wrong.  A code is also the exit
 * code of the tool that met it (doc/image-format.md, "Outcomes"), so the
 * numbers never change once released.
 *
 * Library functions return a code (0 = done) and never print.  Where more can
 * be said than the code, they note it with fault(): the first fault since
 * fault_clear() wins, as in the pipeline, and the tool prints it once.
 */
#ifndef DORMOUSE_BASE_ERROR_H
#define DORMOUSE_BASE_ERROR_H

enum code {
	E_OK = 0,
	E_INTERNAL = 1,	    /* a bug in this program */
	E_USAGE = 2,	    /* wrong command line */
	E_CONF = 3,	    /* configuration file or key cannot be used */
	E_PRIVILEGE = 4,    /* needs root */
	E_KERNEL = 5,	    /* the kernel refuses hibernation */
	E_BUSY = 6,	    /* another hibernation, or the device is in use */
	E_DEVICE = 7,	    /* device missing or unusable as a target */
	E_IO = 8,	    /* read or write error */
	E_NOSPACE = 9,	    /* the swap area is too small for the image */
	E_MEMORY = 10,	    /* not enough memory */
	E_FREEZE = 11,	    /* a task would not freeze */
	E_SNAPSHOT = 12,    /* the kernel could not make the image */
	E_POWER = 13,	    /* power-off refused; the system goes on */
	E_ABORTED = 14,	    /* by a signal or by the user */
	E_UNSAFE = 15,	    /* a check says that this machine would not come back */
	E_NOIMAGE = 20,	    /* the area holds no image */
	E_CORRUPT = 21,	    /* an image of ours, damaged */
	E_UNSUPPORTED = 22, /* an image of a version or with features unknown here */
	E_OTHERKERNEL = 23, /* made by another kernel or on another machine */
	E_OTHERSYSTEM = 24, /* belongs to another installation */
	E_STALE = 25,	    /* file systems were used since it was made */
	E_KEY = 26,	    /* no key or a wrong one */
	E_NOASK = 27,	    /* no way to ask for a passphrase */
	E_NORESUME = 28,    /* the kernel command line says not to resume */
	E_MOUNTED = 29,	    /* file systems are mounted already */
	E_RESTORE = 30,	    /* the kernel refused the image */
	E_FOREIGN = 31,	    /* somebody else's signature */
	E_GIVENUP = 32,	    /* too many attempts */
	E_NOANSWER = 33,    /* nobody answered a question */
	E_DECLINED = 34,    /* a person chose to boot without the image */
};

/* One sentence without a full stop, never NULL; unknown codes get a sentence too. */
const char *code_sentence(int code);

/* The code's short name for scripts ("no-image", "stale"), never NULL. */
const char *code_name(int code);

/*
 * Notes what happened, returns @code.  @sys is an errno value or 0; its text
 * is appended.  No allocation; may be called after FREEZE and from any thread
 * (a mutex guards the note).
 */
int fault(int code, int sys, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/*
 * What was noted: "" when nothing was.  The text lives in static memory.
 * Call it when no other thread can call fault() any more.
 */
const char *fault_text(void);
int fault_errno(void);
void fault_clear(void);

#endif
