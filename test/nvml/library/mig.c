/* MIG: the devices of a GPU. */
#include <stdio.h>
#include <string.h>

#include "double.h"

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

EXPORT int nvmlDeviceGetGpuInstanceId(Device device, u32 *id)
	ANSWER(device, number(c, id, "gi"))

EXPORT int nvmlDeviceGetComputeInstanceId(Device device, u32 *id)
	ANSWER(device, number(c, id, "ci"))

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
