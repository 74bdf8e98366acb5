/* MIG: the devices of a GPU, and the instances and profiles behind them. */
#include <stdio.h>
#include <string.h>

#include "double.h"

/* Handles of instances: one of a GPU instance itself, then its compute instances. */
static char instances[MAX_GPUS * MAX_INSTANCES * (MAX_INSTANCES + 1)];

static Instance instance_of(int gpu, u32 gi, int ci)
{
	return &instances[(gpu * MAX_INSTANCES + (int)gi) * (MAX_INSTANCES + 1) + ci + 1];
}

static bool instance_slots(Instance instance, int *gpu, u32 *gi, int *ci)
{
	if (!instance || instance < instances || instance >= instances + sizeof instances)
		return false;
	int at = (int)(instance - instances);
	*ci = at % (MAX_INSTANCES + 1) - 1;
	at /= MAX_INSTANCES + 1;
	*gi = (u32)at % MAX_INSTANCES;
	*gpu = at / MAX_INSTANCES;
	return true;
}

static int mode(const struct call *call, u32 *current, u32 *pending)
{
	int result = number(call, current, "mig.current");
	if (result == SUCCESS && number(call, pending, "mig.pending") != SUCCESS)
		*pending = *current;
	return result;
}

EXPORT int nvmlDeviceGetMigMode(Device device, u32 *current, u32 *pending)
	ANSWER(device, pending ? mode(c, current, pending) : INVALID_ARGUMENT)

EXPORT int nvmlDeviceGetMaxMigDeviceCount(Device device, u32 *count)
	ANSWER(device, number(c, count, "mig.max"))

static int by_index(struct call *call, u32 index, Device *device)
{
	if (!device || index >= MAX_MIGS || call->mig != NONE)
		return INVALID_ARGUMENT;
	if (!get(call, "mig.%u.uuid", index))
		return NOT_FOUND;
	int result = locate(call, call->gpu, (int)index);
	if (result == SUCCESS)
		*device = handle_of(call->gpu, (int)index);
	return result;
}

EXPORT int nvmlDeviceGetMigDeviceHandleByIndex(Device device, u32 index, Device *mig)
	ANSWER(device, by_index(c, index, mig))

static int is_mig(const struct call *call, u32 *answer)
{
	if (!answer)
		return INVALID_ARGUMENT;
	*answer = call->mig != NONE;
	return SUCCESS;
}

EXPORT int nvmlDeviceIsMigDeviceHandle(Device device, u32 *answer)
	ANSWER(device, is_mig(c, answer))

EXPORT int nvmlDeviceGetGpuInstanceId(Device device, u32 *id)
	ANSWER(device, number(c, id, "gi"))

EXPORT int nvmlDeviceGetComputeInstanceId(Device device, u32 *id)
	ANSWER(device, number(c, id, "ci"))

static int parent(const struct call *call, Device *device)
{
	if (!device || call->mig == NONE)
		return INVALID_ARGUMENT;
	*device = handle_of(call->gpu, NONE);
	return SUCCESS;
}

EXPORT int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(Device mig, Device *device)
	ANSWER(mig, parent(c, device))

static int attributes(const struct call *call, DeviceAttributes *out)
{
	if (!out)
		return INVALID_ARGUMENT;
	*out = (DeviceAttributes){
		.multiprocessorCount = or_zero(call, "attribute.multiprocessors"),
		.sharedCopyEngineCount = or_zero(call, "attribute.copy-engines"),
		.sharedDecoderCount = or_zero(call, "attribute.decoders"),
		.sharedEncoderCount = or_zero(call, "attribute.encoders"),
		.sharedJpegCount = or_zero(call, "attribute.jpeg-engines"),
		.sharedOfaCount = or_zero(call, "attribute.ofa-engines"),
		.gpuInstanceSliceCount = or_zero(call, "attribute.gi-slices"),
		.computeInstanceSliceCount = or_zero(call, "attribute.ci-slices"),
	};
	return number64(call, &out->memorySizeMB, "attribute.memory");
}

EXPORT int nvmlDeviceGetAttributes_v2(Device device, DeviceAttributes *out)
	ANSWER(device, attributes(c, out))

/* The MIG device of the GPU whose instances these are; ci NONE: any. */
static int find(const struct call *call, u32 gi, int ci)
{
	u32 has;
	for (int mig = 0; mig < MAX_MIGS; mig++) {
		if (number(call, &has, "mig.%d.gi", mig) != SUCCESS || has != gi)
			continue;
		if (ci == NONE || (number(call, &has, "mig.%d.ci", mig) == SUCCESS && has == (u32)ci))
			return mig;
	}
	return NONE;
}

static int gi_by_id(const struct call *call, u32 id, Instance *out)
{
	if (!out || id >= MAX_INSTANCES || call->mig != NONE)
		return INVALID_ARGUMENT;
	if (find(call, id, NONE) == NONE)
		return NOT_FOUND;
	*out = instance_of(call->gpu, id, NONE);
	return SUCCESS;
}

EXPORT int nvmlDeviceGetGpuInstanceById(Device device, u32 id, Instance *out)
	ANSWER(device, gi_by_id(c, id, out))

/* A call about an instance is one about its GPU. */
struct instance {
	int gpu, ci, mig;
	u32 gi;
};

static int begin_instance(struct call *call, const char *function, Instance handle, struct instance *out)
{
	int result = begin(call, function, NULL);
	if (result != SUCCESS)
		return result;
	if (!instance_slots(handle, &out->gpu, &out->gi, &out->ci))
		return INVALID_ARGUMENT;
	result = locate(call, out->gpu, NONE);
	if (result != SUCCESS)
		return result;
	out->mig = find(call, out->gi, out->ci);
	return out->mig == NONE ? NOT_FOUND : SUCCESS;
}

EXPORT int nvmlGpuInstanceGetComputeInstanceById(Instance gi, u32 id, Instance *out)
{
	struct call call;
	struct instance on;
	int result = begin_instance(&call, __func__, gi, &on);
	if (result == SUCCESS && (!out || id >= MAX_INSTANCES || on.ci != NONE))
		result = INVALID_ARGUMENT;
	if (result == SUCCESS && find(&call, on.gi, (int)id) == NONE)
		result = NOT_FOUND;
	if (result == SUCCESS)
		*out = instance_of(on.gpu, on.gi, (int)id);
	return end(&call, result);
}

EXPORT int nvmlGpuInstanceGetInfo(Instance gi, GpuInstanceInfo *out)
{
	struct call call;
	struct instance on;
	int result = begin_instance(&call, __func__, gi, &on);
	if (result == SUCCESS && !out)
		result = INVALID_ARGUMENT;
	if (result == SUCCESS)
		*out = (GpuInstanceInfo){
			.device = handle_of(on.gpu, NONE),
			.id = on.gi,
			.profileId = or_zero(&call, "mig.%d.gi.profile", on.mig),
			.placement.start = or_zero(&call, "mig.%d.gi.start", on.mig),
			.placement.size = or_zero(&call, "mig.%d.gi.size", on.mig),
		};
	return end(&call, result);
}

EXPORT int nvmlComputeInstanceGetInfo_v2(Instance ci, ComputeInstanceInfo *out)
{
	struct call call;
	struct instance on;
	int result = begin_instance(&call, __func__, ci, &on);
	if (result == SUCCESS && (!out || on.ci == NONE))
		result = INVALID_ARGUMENT;
	if (result == SUCCESS)
		*out = (ComputeInstanceInfo){
			.device = handle_of(on.gpu, NONE),
			.gpuInstance = instance_of(on.gpu, on.gi, NONE),
			.id = (u32)on.ci,
			.profileId = or_zero(&call, "mig.%d.ci.profile", on.mig),
		};
	return end(&call, result);
}

static int gi_profile(const struct call *call, u32 profile, GpuInstanceProfileInfo *out)
{
	if (!out)
		return INVALID_ARGUMENT;
	*out = (GpuInstanceProfileInfo){
		.sliceCount = or_zero(call, "gi-profile.%u.slices", profile),
		.instanceCount = or_zero(call, "gi-profile.%u.instances", profile),
		.multiprocessorCount = or_zero(call, "gi-profile.%u.multiprocessors", profile),
		.memorySizeMB = or_zero(call, "gi-profile.%u.memory", profile),
	};
	return number(call, &out->id, "gi-profile.%u.id", profile);
}

EXPORT int nvmlDeviceGetGpuInstanceProfileInfo(Device device, u32 profile, GpuInstanceProfileInfo *out)
	ANSWER(device, gi_profile(c, profile, out))

EXPORT int nvmlGpuInstanceGetComputeInstanceProfileInfo(Instance gi, u32 profile, u32 engine, ComputeInstanceProfileInfo *out)
{
	struct call call;
	struct instance on;
	int result = begin_instance(&call, __func__, gi, &on);
	if (result == SUCCESS && (!out || engine))
		result = INVALID_ARGUMENT;
	if (result == SUCCESS) {
		*out = (ComputeInstanceProfileInfo){
			.sliceCount = or_zero(&call, "ci-profile.%u.slices", profile),
			.instanceCount = or_zero(&call, "ci-profile.%u.instances", profile),
		};
		result = number(&call, &out->id, "ci-profile.%u.id", profile);
	}
	return end(&call, result);
}
