/* What the parts of the double share. See ../README.md for the file's format. */
#ifndef ACCELMUX_NVML_DOUBLE_H
#define ACCELMUX_NVML_DOUBLE_H

#include <stdbool.h>
#include <stddef.h>

#include "abi.h"

#define EXPORT __attribute__((visibility("default")))
#define FORMAT(n) __attribute__((format(printf, n, n + 1)))

enum {
	MAX_GPUS = 64,
	MAX_MIGS = 64,  /* of one GPU */
	MAX_SETS = 64,  /* event sets alive at once */
	MAX_LINKS = 36, /* as NVML's NVLINK_MAX_LINKS */
	KEY = 192,      /* longest key, with its end */
	NONE = -1,
};

/* file.c: one version of the file, parsed; sorted by key; never changed. */
struct entry {
	const char *key, *value;
	size_t line;
};
struct file {
	char *text;
	struct entry *entries;
	size_t count;
	bool errors, hangs; /* there is such a key at all */
	u64 gpus;           /* a bit a slot that has a UUID */
	u32 references;
};
struct file *file_parse(char *text, size_t size); /* takes text; NULL without memory */
void file_free(struct file *file);
const char *file_get(const struct file *file, const char *key); /* NULL: no such key */
/* The first entry of those whose key starts with prefix, and how many there are. */
const struct entry *file_range(const struct file *file, const char *prefix, size_t *count);

/* values.c: what a value says. false: it does not say that. */
bool value_number(const char *value, u64 *number); /* C notation; negative wraps */
bool value_text(const char *value, char *text, size_t size); /* false: does not fit */
u64 value_milliseconds(const char *value);
int value_error(const char *value);
const char *error_text(int error);
/* Next word of the text, cut at size; false at its end. */
bool next_word(const char **text, char *word, size_t size);

/* state.c: a call into the library, from begin to end. */
struct call {
	const char *function;
	struct file *file;
	u64 epoch;        /* which initialisation it belongs to; 0: it is one itself */
	u64 gpus;         /* that NVML counts, a bit a slot */
	int gpu, mig;     /* slots, or NONE */
	char prefix[48];  /* of the keys of what is asked: "", "gpu.3.", "gpu.3.mig.1." */
};
int begin(struct call *call, const char *function, Device device);
int end(struct call *call, int result);
/* The call turns out to be about this device: its hangs and errors count. */
int locate(struct call *call, int gpu, int mig);
/* Takes the newest file, and says how the call fails now, without hanging. */
int again(struct call *call);
/* Blocks until there is a newer file than the call's, or an end of the
 * library, or now_ms() is the deadline. */
void wait_newer(const struct call *call, u64 deadline);
u64 now_ms(void);

/* What is asked, under the key's prefix. NOT_SUPPORTED: the file does not say. */
const char *get(const struct call *call, const char *format, ...) FORMAT(2);
int text(const struct call *call, char *out, u32 size, const char *format, ...) FORMAT(4);
int number(const struct call *call, u32 *out, const char *format, ...) FORMAT(3);
int number64(const struct call *call, u64 *out, const char *format, ...) FORMAT(3);
u32 or_zero(const struct call *call, const char *format, ...) FORMAT(2);

/* The frame of a call whose answer is one expression. */
#define ANSWER(device, expression)                       \
	{                                                \
		struct call call, *c = &call;            \
		int result = begin(c, __func__, device); \
		if (result == SUCCESS)                   \
			result = (expression);           \
		return end(c, result);                   \
	}

/* device.c */
Device handle_of(int gpu, int mig);
bool handle_slots(Device device, int *gpu, int *mig);
void fill_pci(PciInfo *pci, const char *bus_id);

/* events.c */
void events_forget(void); /* all sets: the library was shut down */

/* source.c: the newest version of the file. Every
 * function but the first wants the lock held, and those that wait give it up. */
void source_lock(void);
void source_unlock(void);
bool source_open(void); /* by the environment; false: there is no file */
struct file *source_newest(void);
void source_release(struct file *file);
void source_wait(u64 deadline); /* for a change, or a source_wake, or spuriously */
void source_wake(void);
/* Replaces the lines that begin with drop by others, in the file of what was made: it is read after the
 * file, and stays when that is replaced. Wants the lock. */
bool source_make(const char *drop, const char *add);

#endif
