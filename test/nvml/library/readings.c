/* What changes while a GPU runs: memory, power, clocks, errors, processes. */
#include <stdio.h>
#include <string.h>

#include "double.h"

#define COUNT(names) (sizeof names / sizeof *names)

static const char *name_of(const char *const *names, size_t count, u32 index)
{
	return index < count ? names[index] : "unknown";
}

/* As NVML has it: what is reserved counts as used. */
static int memory(const struct call *call, Memory *out)
{
	u64 used;
	if (!out)
		return INVALID_ARGUMENT;
	int result = number64(call, &out->total, "memory.total");
	if (result == SUCCESS)
		result = number64(call, &used, "memory.used");
	if (result != SUCCESS)
		return result;
	out->used = used + or_zero(call, "memory.reserved");
	out->free = out->used < out->total ? out->total - out->used : 0;
	return SUCCESS;
}

EXPORT int nvmlDeviceGetMemoryInfo(Device device, Memory *out)
	ANSWER(device, memory(c, out))

static int both(int first, int second)
{
	return first != SUCCESS ? first : second;
}

EXPORT int nvmlDeviceGetUtilizationRates(Device device, Utilization *out)
	ANSWER(device, !out ? INVALID_ARGUMENT
			    : both(number(c, &out->gpu, "utilization.gpu"), number(c, &out->memory, "utilization.memory")))

/* Power in mW. */
EXPORT int nvmlDeviceGetPowerUsage(Device device, u32 *out)
	ANSWER(device, number(c, out, "power.usage"))

EXPORT int nvmlDeviceGetPowerManagementLimit(Device device, u32 *out)
	ANSWER(device, number(c, out, "power.limit"))

EXPORT int nvmlDeviceGetTemperature(Device device, u32 sensor, u32 *out)
	ANSWER(device, sensor ? INVALID_ARGUMENT : number(c, out, "temperature"))

EXPORT int nvmlDeviceGetTemperatureThreshold(Device device, u32 type, u32 *out)
	ANSWER(device, number(c, out, "temperature.threshold.%u", type))

static const char *const clocks[] = {"graphics", "sm", "memory", "video"};

EXPORT int nvmlDeviceGetClockInfo(Device device, u32 type, u32 *out)
	ANSWER(device, number(c, out, "clock.%s", name_of(clocks, COUNT(clocks), type)))

EXPORT int nvmlDeviceGetCurrentClocksEventReasons(Device device, u64 *out)
	ANSWER(device, number64(c, out, "clocks-event-reasons"))

EXPORT int nvmlDeviceGetCurrentClocksThrottleReasons(Device device, u64 *out)
	ANSWER(device, number64(c, out, "clocks-event-reasons"))

static const char *const kinds[] = {"corrected", "uncorrected"};
static const char *const counters[] = {"volatile", "aggregate"};

EXPORT int nvmlDeviceGetTotalEccErrors(Device device, u32 kind, u32 counter, u64 *out)
	ANSWER(device, number64(c, out, "ecc.%s.%s", name_of(kinds, COUNT(kinds), kind), name_of(counters, COUNT(counters), counter)))

static int sram(const struct call *call, EccSramErrorStatus *out)
{
	u32 version = VERSION(EccSramErrorStatus, 1);
	if (!out)
		return INVALID_ARGUMENT;
	if (out->version != version)
		return VERSION_MISMATCH;
	*out = (EccSramErrorStatus){.version = version};
	return number(call, &out->thresholdExceeded, "ecc.sram-threshold-exceeded");
}

EXPORT int nvmlDeviceGetSramEccErrorStatus(Device device, EccSramErrorStatus *out)
	ANSWER(device, sram(c, out))

EXPORT int nvmlDeviceGetRetiredPagesPendingStatus(Device device, u32 *pending)
	ANSWER(device, number(c, pending, "retired-pages.pending"))

EXPORT int nvmlDeviceGetRemappedRows(Device device, u32 *corrected, u32 *uncorrected, u32 *pending, u32 *failure)
	ANSWER(device, both(both(number(c, corrected, "remapped-rows.corrected"), number(c, uncorrected, "remapped-rows.uncorrected")),
			    both(number(c, pending, "remapped-rows.pending"), number(c, failure, "remapped-rows.failure"))))

static int repairs(const struct call *call, RepairStatus *out)
{
	if (!out)
		return INVALID_ARGUMENT;
	if (out->version != VERSION(RepairStatus, 1))
		return VERSION_MISMATCH;
	return both(number(call, &out->channel, "repair.channel"), number(call, &out->tpc, "repair.tpc"));
}

EXPORT int nvmlDeviceGetRepairStatus(Device device, RepairStatus *out)
	ANSWER(device, repairs(c, out))

EXPORT int nvmlDeviceGetUnrepairableMemoryFlag_v1(Device device, UnrepairableMemoryStatus_v1 *out)
	ANSWER(device, out ? number(c, &out->unrepairable, "unrepairable-memory") : INVALID_ARGUMENT)

/* No process uses a GPU of the double. */
static int processes(u32 *count, const ProcessInfo *infos)
{
	if (!count || (*count && !infos))
		return INVALID_ARGUMENT;
	*count = 0;
	return SUCCESS;
}

EXPORT int nvmlDeviceGetComputeRunningProcesses_v3(Device device, u32 *count, ProcessInfo *infos)
	ANSWER(device, processes(count, infos))

EXPORT int nvmlDeviceGetGraphicsRunningProcesses_v3(Device device, u32 *count, ProcessInfo *infos)
	ANSWER(device, processes(count, infos))
