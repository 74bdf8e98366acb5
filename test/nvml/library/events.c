/* Event sets. An event is a line with a number; numbers only grow. A set gets
 * those that are newer than the registration they belong to, each once. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "double.h"

/* Under source_lock. */
static struct set {
	bool used;
	u64 delivered;
	struct {
		u64 types, after;
	} on[MAX_GPUS];
} sets[MAX_SETS];

struct event {
	u64 number, type, data;
	int gpu;
	u32 gi, ci;
};

#define EVENTS "event."

void events_forget(void)
{
	memset(sets, 0, sizeof sets);
}

static bool is_set(const struct set *set)
{
	for (int i = 0; i < MAX_SETS; i++)
		if (set == &sets[i])
			return set->used;
	return false;
}

static int create(EventSet *out)
{
	int result = out ? INSUFFICIENT_RESOURCES : INVALID_ARGUMENT;
	source_lock();
	for (int i = 0; out && i < MAX_SETS; i++) {
		if (sets[i].used)
			continue;
		memset(&sets[i], 0, sizeof sets[i]);
		sets[i].used = true;
		*out = &sets[i];
		result = SUCCESS;
		break;
	}
	source_unlock();
	return result;
}

static int destroy(EventSet set)
{
	source_lock();
	bool found = is_set(set);
	if (found)
		set->used = false;
	source_unlock();
	return found ? SUCCESS : INVALID_ARGUMENT;
}

/* A bit's name, its number, or "xid <n>" with the data. */
static u64 type_of(const char *word)
{
	static const struct {
		const char *name;
		u64 type;
	} types[] = {
		{"single-bit-ecc", 0x1},	 {"double-bit-ecc", 0x2},	      {"pstate", 0x4},
		{"xid", 0x8},			 {"clock", 0x10},		      {"power-source", 0x80},
		{"mig-config", 0x100},		 {"single-bit-ecc-storm", 0x200},     {"dram-retirement", 0x400},
		{"dram-retirement-failure", 0x800}, {"non-fatal-poison", 0x1000},     {"fatal-poison", 0x2000},
		{"gpu-unavailable", 0x4000},	 {"gpu-recovery-action", 0x8000},
	};
	u64 number = 0;
	for (size_t i = 0; i < sizeof types / sizeof *types; i++)
		if (!strcmp(word, types[i].name))
			return types[i].type;
	return value_number(word, &number) ? number : 0;
}

/* gpu <slot> xid <n> | gpu <slot> type <name|number> [data <n>], [gi <n>] [ci <n>]. */
static bool parse_event(const struct entry *entry, size_t prefix, struct event *out)
{
	const char *rest = entry->value;
	char word[32], argument[64];
	u64 amount = 0;
	*out = (struct event){.gpu = NONE, .gi = ~0u, .ci = ~0u};
	if (!value_number(entry->key + prefix, &out->number) || !out->number)
		return false;
	while (next_word(&rest, word, sizeof word)) {
		if (!next_word(&rest, argument, sizeof argument))
			return false;
		if (!strcmp(word, "type")) {
			out->type = type_of(argument);
			continue;
		}
		if (!value_number(argument, &amount))
			return false;
		if (!strcmp(word, "xid"))
			out->type = 0x8;
		if (!strcmp(word, "xid") || !strcmp(word, "data"))
			out->data = amount;
		else if (!strcmp(word, "gpu"))
			out->gpu = amount < MAX_GPUS ? (int)amount : NONE;
		else if (!strcmp(word, "gi"))
			out->gi = (u32)amount;
		else if (!strcmp(word, "ci"))
			out->ci = (u32)amount;
	}
	return out->type != 0;
}

static u64 newest_number(const struct file *file)
{
	size_t entries, length = strlen(EVENTS);
	const struct entry *entry = file_range(file, EVENTS, &entries);
	u64 newest = 0, number;
	for (; entries--; entry++)
		if (value_number(entry->key + length, &number) && number > newest)
			newest = number;
	return newest;
}

/* The next event for the set, in the order of their numbers. */
static bool next_event(struct set *set, const struct file *file, struct event *out)
{
	size_t entries, length = strlen(EVENTS);
	const struct entry *entry = file_range(file, EVENTS, &entries);
	bool found = false;
	for (; entries--; entry++) {
		struct event event;
		if (!parse_event(entry, length, &event) || event.number <= set->delivered)
			continue;
		if (event.gpu == NONE)
			continue;
		if (!(set->on[event.gpu].types & event.type) || event.number <= set->on[event.gpu].after)
			continue;
		if (!found || event.number < out->number) {
			*out = event;
			found = true;
		}
	}
	if (found)
		set->delivered = out->number;
	return found;
}

/* Blocks until there is an event for the set, the call fails, or time is up. */
static int wait(struct call *call, EventSet set, u32 timeout_ms, struct event *out)
{
	u64 deadline = now_ms() + timeout_ms;
	for (;;) {
		int result = again(call);
		if (result != SUCCESS)
			return result;
		source_lock();
		bool there = is_set(set);
		bool found = there && next_event(set, call->file, out);
		source_unlock();
		if (!there)
			return INVALID_ARGUMENT;
		if (found)
			return SUCCESS;
		if (now_ms() >= deadline)
			return TIMEOUT;
		wait_newer(call, deadline);
	}
}

static int add(const struct call *call, EventSet set, int on, u64 types)
{
	int result = INVALID_ARGUMENT;
	source_lock();
	if (is_set(set)) {
		if (!set->on[on].types)
			set->on[on].after = newest_number(call->file);
		set->on[on].types |= types;
		result = SUCCESS;
	}
	source_unlock();
	return result;
}

EXPORT int nvmlEventSetCreate(EventSet *set)
	ANSWER(NULL, create(set))

EXPORT int nvmlEventSetFree(EventSet set)
	ANSWER(NULL, destroy(set))

EXPORT int nvmlDeviceGetSupportedEventTypes(Device device, u64 *types)
	ANSWER(device, number64(c, types, "events"))

static int register_events(const struct call *call, u64 types, EventSet set)
{
	u64 supported;
	int result = number64(call, &supported, "events");
	if (result != SUCCESS)
		return result;
	if (types & ~supported || call->mig != NONE)
		return NOT_SUPPORTED;
	return add(call, set, call->gpu, types);
}

EXPORT int nvmlDeviceRegisterEvents(Device device, u64 types, EventSet set)
	ANSWER(device, register_events(c, types, set))

static int wait_device(struct call *call, EventSet set, EventData *out, u32 timeout_ms)
{
	struct event event = {0};
	int result = out ? wait(call, set, timeout_ms, &event) : INVALID_ARGUMENT;
	if (result == SUCCESS)
		*out = (EventData){
			.device = handle_of(event.gpu, NONE),
			.eventType = event.type,
			.eventData = event.data,
			.gpuInstanceId = event.gi,
			.computeInstanceId = event.ci,
		};
	return result;
}

EXPORT int nvmlEventSetWait_v2(EventSet set, EventData *data, u32 timeout_ms)
	ANSWER(NULL, wait_device(c, set, data, timeout_ms))
