/* MIG: what creates and destroys GPU instances and compute instances. They are lines of the file of what was
 * made: "gpu.N.gi.I = <profile> <start> <size>", and those of the MIG device with the index I. A compute
 * instance has all of its GPU instance. */
#include <stdio.h>
#include <string.h>

#include "double.h"

enum { MAX_INSTANCES = 16 }; /* their IDs begin at 1 */

/* Handles are addresses in here. */
static char instances[MAX_GPUS * MAX_INSTANCES];

static bool slots(const char *handle, int *gpu, u32 *id)
{
	if (handle < instances || handle >= instances + sizeof instances)
		return false;
	*gpu = (int)((handle - instances) / MAX_INSTANCES);
	*id = (u32)((handle - instances) % MAX_INSTANCES);
	return true;
}

static const char *handle(int gpu, u32 id)
{
	return &instances[gpu * MAX_INSTANCES + (int)id];
}

/* A profile: "<slices> <instances> <memory in MB> <multiprocessors> <decoders> <jpeg and ofa engines> <size>", then where
 * it can start. */
static int profile(const struct call *call, u32 index, GpuInstanceProfileInfo *info, u32 *size, const char **starts)
{
	const char *value = get(call, "gi-profile.%u", index);
	int used = 0;
	if (!info)
		return INVALID_ARGUMENT;
	*info = (GpuInstanceProfileInfo){.id = index};
	if (!value)
		return NOT_SUPPORTED;
	if (sscanf(value, "%u %u %llu %u %u %u %u%n", &info->sliceCount, &info->instanceCount, &info->memorySizeMB,
	           &info->multiprocessorCount, &info->decoderCount, &info->jpegCount, size, &used) != 7)
		return UNKNOWN;
	info->copyEngineCount = info->sliceCount;
	info->ofaCount = info->jpegCount;
	*starts = value + used;
	return SUCCESS;
}

static int profile_info(const struct call *call, u32 index, GpuInstanceProfileInfo *info)
{
	u32 size;
	const char *starts;
	return profile(call, index, info, &size, &starts);
}

EXPORT int nvmlDeviceGetGpuInstanceProfileInfo(Device device, u32 index, GpuInstanceProfileInfo *info)
	ANSWER(device, profile_info(c, index, info))

static int placements(const struct call *call, u32 index, GpuInstancePlacement *out, u32 *count)
{
	GpuInstanceProfileInfo info;
	u32 size, n = 0, start;
	const char *starts;
	char word[16];
	int result = profile(call, index, &info, &size, &starts);
	while (result == SUCCESS && next_word(&starts, word, sizeof word) && sscanf(word, "%u", &start) == 1) {
		if (out && n < *count)
			out[n] = (GpuInstancePlacement){start, size};
		n++;
	}
	*count = n;
	return result;
}

EXPORT int nvmlDeviceGetGpuInstancePossiblePlacements_v2(Device device, u32 index, GpuInstancePlacement *out, u32 *count)
	ANSWER(device, placements(c, index, out, count))

static bool instance(const struct call *call, u32 id, u32 *index, GpuInstancePlacement *at)
{
	const char *value = get(call, "gi.%u", id);
	return value && sscanf(value, "%u %u %u", index, &at->start, &at->size) == 3;
}

static int list(const struct call *call, u32 wanted, GpuInstance *out, u32 *count)
{
	u32 n = 0, index;
	GpuInstancePlacement at;
	for (u32 id = 1; id < MAX_INSTANCES; id++) {
		if (!instance(call, id, &index, &at) || index != wanted)
			continue;
		if (n == *count)
			return INSUFFICIENT_SIZE;
		out[n++] = handle(call->gpu, id);
	}
	*count = n;
	return SUCCESS;
}

EXPORT int nvmlDeviceGetGpuInstances(Device device, u32 index, GpuInstance *out, u32 *count)
	ANSWER(device, list(c, index, out, count))

static int by_id(const struct call *call, u32 id, GpuInstance *out)
{
	if (!out || id >= MAX_INSTANCES)
		return INVALID_ARGUMENT;
	*out = handle(call->gpu, id);
	return get(call, "gi.%u", id) ? SUCCESS : NOT_FOUND;
}

EXPORT int nvmlDeviceGetGpuInstanceById(Device device, u32 id, GpuInstance *out)
	ANSWER(device, by_id(c, id, out))

/* The frame of a call on a GPU instance. */
#define ANSWER_INSTANCE(gi, expression)                                                 \
	{                                                                               \
		struct call call, *c = &call;                                           \
		int gpu;                                                                \
		u32 id;                                                                 \
		if (!slots(gi, &gpu, &id))                                              \
			return INVALID_ARGUMENT;                                        \
		int result = begin(c, __func__, handle_of(gpu, NONE));                  \
		if (result == SUCCESS)                                                  \
			result = get(c, "gi.%u", id) ? (expression) : INVALID_ARGUMENT; \
		return end(c, result);                                                  \
	}

static int info(const struct call *call, u32 id, GpuInstanceInfo *out)
{
	if (!out)
		return INVALID_ARGUMENT;
	*out = (GpuInstanceInfo){.device = handle_of(call->gpu, NONE), .id = id};
	return instance(call, id, &out->profileId, &out->placement) ? SUCCESS : UNKNOWN;
}

EXPORT int nvmlGpuInstanceGetInfo(GpuInstance gi, GpuInstanceInfo *out)
	ANSWER_INSTANCE(gi, info(c, id, out))

static int replace(const char *drop, const char *add)
{
	source_lock();
	bool done = source_make(drop, add);
	source_unlock();
	return done ? SUCCESS : UNKNOWN;
}

static int create(const struct call *call, u32 index, const GpuInstancePlacement *at, GpuInstance *out)
{
	u32 other, free = 0;
	GpuInstancePlacement o;
	char line[KEY];
	if (!at || !out)
		return INVALID_ARGUMENT;
	for (u32 id = MAX_INSTANCES - 1; id > 0; id--) {
		if (!instance(call, id, &other, &o))
			free = id;
		else if (at->start < o.start + o.size && o.start < at->start + at->size)
			return INSUFFICIENT_RESOURCES;
	}
	if (!free)
		return INSUFFICIENT_RESOURCES;
	snprintf(line, sizeof line, "gpu.%d.gi.%u = %u %u %u\n", call->gpu, free, index, at->start, at->size);
	*out = handle(call->gpu, free);
	return replace("none", line);
}

EXPORT int nvmlDeviceCreateGpuInstanceWithPlacement(Device device, u32 index, const GpuInstancePlacement *at, GpuInstance *out)
	ANSWER(device, create(c, index, at, out))

static int compute_profile(const struct call *call, u32 id, u32 index, ComputeInstanceProfileInfo *out)
{
	u32 of;
	GpuInstancePlacement at;
	GpuInstanceProfileInfo gi;
	if (index || !out)
		return out ? NOT_SUPPORTED : INVALID_ARGUMENT;
	if (!instance(call, id, &of, &at) || profile_info(call, of, &gi) != SUCCESS)
		return UNKNOWN;
	*out = (ComputeInstanceProfileInfo){.sliceCount = gi.sliceCount, .instanceCount = 1, .multiprocessorCount = gi.multiprocessorCount};
	return SUCCESS;
}

EXPORT int nvmlGpuInstanceGetComputeInstanceProfileInfo(GpuInstance gi, u32 index, u32 engines, ComputeInstanceProfileInfo *out)
	ANSWER_INSTANCE(gi, engines ? NOT_SUPPORTED : compute_profile(c, id, index, out))

static int create_compute(const struct call *call, u32 id, ComputeInstance *out)
{
	u32 index;
	GpuInstancePlacement at;
	GpuInstanceProfileInfo p;
	char lines[2048];
	if (!instance(call, id, &index, &at) || profile_info(call, index, &p) != SUCCESS)
		return UNKNOWN;
	if (get(call, "mig.%u.uuid", id))
		return INSUFFICIENT_RESOURCES;
	int n = call->gpu;
	snprintf(lines, sizeof lines,
	         "gpu.%d.mig.%u.uuid = MIG-%08x-%04x-5000-8000-000000000001\ngpu.%d.mig.%u.name = MIG\n"
	         "gpu.%d.mig.%u.gi = %u\ngpu.%d.mig.%u.ci = 0\ngpu.%d.mig.%u.memory.total = %llu\ngpu.%d.mig.%u.memory.used = 0\n"
	         "gpu.%d.mig.%u.attribute.memory = %llu\ngpu.%d.mig.%u.attribute.multiprocessors = %u\n"
	         "gpu.%d.mig.%u.attribute.gi-slices = %u\ngpu.%d.mig.%u.attribute.ci-slices = %u\n",
	         n, id, n, id, n, id, n, id, id, n, id, n, id, p.memorySizeMB << 20, n, id,
	         n, id, p.memorySizeMB, n, id, p.multiprocessorCount, n, id, p.sliceCount, n, id, p.sliceCount);
	*out = handle(call->gpu, id);
	return replace("none", lines);
}

EXPORT int nvmlGpuInstanceCreateComputeInstance(GpuInstance gi, u32 index, ComputeInstance *out)
	ANSWER_INSTANCE(gi, index || !out ? INVALID_ARGUMENT : create_compute(c, id, out))

static int list_compute(const struct call *call, u32 id, ComputeInstance *out, u32 *count)
{
	*count = get(call, "mig.%u.uuid", id) ? 1 : 0;
	if (*count)
		*out = handle(call->gpu, id);
	return SUCCESS;
}

EXPORT int nvmlGpuInstanceGetComputeInstances(GpuInstance gi, u32 index, ComputeInstance *out, u32 *count)
	ANSWER_INSTANCE(gi, index ? INVALID_ARGUMENT : list_compute(c, id, out, count))

static int drop(const struct call *call, const char *what, u32 id, const char *end)
{
	char prefix[KEY];
	snprintf(prefix, sizeof prefix, "gpu.%d.%s.%u%s", call->gpu, what, id, end);
	return replace(prefix, "");
}

EXPORT int nvmlComputeInstanceDestroy(ComputeInstance ci)
	ANSWER_INSTANCE(ci, drop(c, "mig", id, "."))

EXPORT int nvmlGpuInstanceDestroy(GpuInstance gi)
	ANSWER_INSTANCE(gi, get(c, "mig.%u.uuid", id) ? IN_USE : drop(c, "gi", id, " "))
