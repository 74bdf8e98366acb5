/* What changes while a GPU runs: memory, power, clocks, errors, processes. */
#include <stdio.h>
#include <string.h>

#include "double.h"

#define COUNT(names) (sizeof names / sizeof *names)

static const char *name_of(const char *const *names, size_t count, u32 index)
{
	return index < count ? names[index] : "unknown";
}

static int memory(const struct call *call, Memory_v2 *out)
{
	int result = number64(call, &out->total, "memory.total");
	if (result == SUCCESS)
		result = number64(call, &out->used, "memory.used");
	if (result != SUCCESS)
		return result;
	if (number64(call, &out->reserved, "memory.reserved") != SUCCESS)
		out->reserved = 0;
	u64 taken = out->used + out->reserved;
	out->free = taken < out->total ? out->total - taken : 0;
	return SUCCESS;
}

/* As NVML has it: the first version counts what is reserved as used. */
static int memory_v1(const struct call *call, Memory *out)
{
	Memory_v2 all;
	if (!out)
		return INVALID_ARGUMENT;
	int result = memory(call, &all);
	if (result == SUCCESS)
		*out = (Memory){.total = all.total, .free = all.free, .used = all.total - all.free};
	return result;
}

static int memory_v2(const struct call *call, Memory_v2 *out)
{
	if (!out)
		return INVALID_ARGUMENT;
	return out->version == VERSION(Memory_v2, 2) ? memory(call, out) : VERSION_MISMATCH;
}

EXPORT int nvmlDeviceGetMemoryInfo(Device device, Memory *out)
	ANSWER(device, memory_v1(c, out))

EXPORT int nvmlDeviceGetMemoryInfo_v2(Device device, Memory_v2 *out)
	ANSWER(device, memory_v2(c, out))

static int both(int first, int second)
{
	return first != SUCCESS ? first : second;
}

EXPORT int nvmlDeviceGetUtilizationRates(Device device, Utilization *out)
	ANSWER(device, !out ? INVALID_ARGUMENT
			    : both(number(c, &out->gpu, "utilization.gpu"), number(c, &out->memory, "utilization.memory")))

/* Power in mW, energy in mJ. */
EXPORT int nvmlDeviceGetPowerUsage(Device device, u32 *out)
	ANSWER(device, number(c, out, "power.usage"))

EXPORT int nvmlDeviceGetPowerManagementLimit(Device device, u32 *out)
	ANSWER(device, number(c, out, "power.limit"))

EXPORT int nvmlDeviceGetPowerManagementDefaultLimit(Device device, u32 *out)
	ANSWER(device, number(c, out, "power.default"))

EXPORT int nvmlDeviceGetEnforcedPowerLimit(Device device, u32 *out)
	ANSWER(device, number(c, out, "power.enforced"))

EXPORT int nvmlDeviceGetPowerManagementLimitConstraints(Device device, u32 *min, u32 *max)
	ANSWER(device, both(number(c, min, "power.min"), number(c, max, "power.max")))

EXPORT int nvmlDeviceGetTotalEnergyConsumption(Device device, u64 *out)
	ANSWER(device, number64(c, out, "energy"))

EXPORT int nvmlDeviceGetTemperature(Device device, u32 sensor, u32 *out)
	ANSWER(device, sensor ? INVALID_ARGUMENT : number(c, out, "temperature"))

static int versioned(const struct call *call, u32 version, u32 wanted, int *out, const char *key)
{
	return version == wanted ? number(call, (u32 *)out, "%s", key) : VERSION_MISMATCH;
}

EXPORT int nvmlDeviceGetTemperatureV(Device device, Temperature *out)
	ANSWER(device, !out ? INVALID_ARGUMENT
			    : versioned(c, out->version, VERSION(Temperature, 1), &out->temperature, "temperature"))

EXPORT int nvmlDeviceGetMarginTemperature(Device device, MarginTemperature *out)
	ANSWER(device, !out ? INVALID_ARGUMENT
			    : versioned(c, out->version, VERSION(MarginTemperature, 1), &out->marginTemperature, "temperature.margin"))

EXPORT int nvmlDeviceGetTemperatureThreshold(Device device, u32 type, u32 *out)
	ANSWER(device, number(c, out, "temperature.threshold.%u", type))

EXPORT int nvmlDeviceGetFanSpeed(Device device, u32 *out)
	ANSWER(device, number(c, out, "fan"))

EXPORT int nvmlDeviceGetPerformanceState(Device device, u32 *out)
	ANSWER(device, number(c, out, "pstate"))

static const char *const clocks[] = {"graphics", "sm", "memory", "video"};

EXPORT int nvmlDeviceGetClockInfo(Device device, u32 type, u32 *out)
	ANSWER(device, number(c, out, "clock.%s", name_of(clocks, COUNT(clocks), type)))

EXPORT int nvmlDeviceGetMaxClockInfo(Device device, u32 type, u32 *out)
	ANSWER(device, number(c, out, "clock.max.%s", name_of(clocks, COUNT(clocks), type)))

EXPORT int nvmlDeviceGetCurrentClocksEventReasons(Device device, u64 *out)
	ANSWER(device, number64(c, out, "clocks-event-reasons"))

EXPORT int nvmlDeviceGetCurrentClocksThrottleReasons(Device device, u64 *out)
	ANSWER(device, number64(c, out, "clocks-event-reasons"))

EXPORT int nvmlDeviceGetPcieReplayCounter(Device device, u32 *out)
	ANSWER(device, number(c, out, "pcie.replays"))

EXPORT int nvmlDeviceGetCurrPcieLinkGeneration(Device device, u32 *out)
	ANSWER(device, number(c, out, "pcie.generation"))

EXPORT int nvmlDeviceGetMaxPcieLinkGeneration(Device device, u32 *out)
	ANSWER(device, number(c, out, "pcie.max-generation"))

EXPORT int nvmlDeviceGetCurrPcieLinkWidth(Device device, u32 *out)
	ANSWER(device, number(c, out, "pcie.width"))

EXPORT int nvmlDeviceGetMaxPcieLinkWidth(Device device, u32 *out)
	ANSWER(device, number(c, out, "pcie.max-width"))

EXPORT int nvmlDeviceGetEccMode(Device device, u32 *current, u32 *pending)
	ANSWER(device, both(number(c, current, "ecc.current"), number(c, pending, "ecc.pending")))

static const char *const kinds[] = {"corrected", "uncorrected"};
static const char *const counters[] = {"volatile", "aggregate"};
static const char *const locations[] = {"l1", "l2", "device", "register-file", "texture", "shared", "cbu", "sram"};

#define ECC "ecc.%s.%s"
#define ECC_NAMES(kind, counter) name_of(kinds, COUNT(kinds), kind), name_of(counters, COUNT(counters), counter)

EXPORT int nvmlDeviceGetTotalEccErrors(Device device, u32 kind, u32 counter, u64 *out)
	ANSWER(device, number64(c, out, ECC, ECC_NAMES(kind, counter)))

EXPORT int nvmlDeviceGetMemoryErrorCounter(Device device, u32 kind, u32 counter, u32 location, u64 *out)
	ANSWER(device, number64(c, out, ECC ".%s", ECC_NAMES(kind, counter), name_of(locations, COUNT(locations), location)))

static int sram(const struct call *call, EccSramErrorStatus *out)
{
	u32 version = VERSION(EccSramErrorStatus, 1);
	if (!out)
		return INVALID_ARGUMENT;
	if (out->version != version)
		return VERSION_MISMATCH;
	*out = (EccSramErrorStatus){
		.version = version,
		.volatileUncParity = or_zero(call, "ecc.uncorrected.volatile.sram"),
		.volatileCor = or_zero(call, "ecc.corrected.volatile.sram"),
		.aggregateUncParity = or_zero(call, "ecc.uncorrected.aggregate.sram"),
		.aggregateCor = or_zero(call, "ecc.corrected.aggregate.sram"),
	};
	return number(call, &out->thresholdExceeded, "ecc.sram-threshold-exceeded");
}

EXPORT int nvmlDeviceGetSramEccErrorStatus(Device device, EccSramErrorStatus *out)
	ANSWER(device, sram(c, out))

EXPORT int nvmlDeviceGetRetiredPagesPendingStatus(Device device, u32 *pending)
	ANSWER(device, number(c, pending, "retired-pages.pending"))

EXPORT int nvmlDeviceGetRemappedRows(Device device, u32 *corrected, u32 *uncorrected, u32 *pending, u32 *failure)
	ANSWER(device, both(both(number(c, corrected, "remapped-rows.corrected"), number(c, uncorrected, "remapped-rows.uncorrected")),
			    both(number(c, pending, "remapped-rows.pending"), number(c, failure, "remapped-rows.failure"))))

static int histogram(const struct call *call, RowRemapperHistogramValues *out)
{
	if (!out)
		return INVALID_ARGUMENT;
	*out = (RowRemapperHistogramValues){
		.high = or_zero(call, "remapped-rows.banks.high"),
		.partial = or_zero(call, "remapped-rows.banks.partial"),
		.low = or_zero(call, "remapped-rows.banks.low"),
		.none = or_zero(call, "remapped-rows.banks.none"),
	};
	return number(call, &out->max, "remapped-rows.banks.max");
}

EXPORT int nvmlDeviceGetRowRemapperHistogram(Device device, RowRemapperHistogramValues *out)
	ANSWER(device, histogram(c, out))

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

/* process.<pid> = [compute|graphics|mps] [memory <bytes>] [gi <id>] [ci <id>] */
static bool process(const struct entry *entry, size_t prefix, const char *kind, ProcessInfo *out)
{
	const char *rest = entry->value;
	char word[32], argument[32];
	bool wanted = !strcmp(kind, "compute");
	u64 pid, amount;
	if (!value_number(entry->key + prefix, &pid))
		return false;
	*out = (ProcessInfo){.pid = (u32)pid, .gpuInstanceId = ~0u, .computeInstanceId = ~0u};
	while (next_word(&rest, word, sizeof word)) {
		if (!strcmp(word, "compute") || !strcmp(word, "graphics") || !strcmp(word, "mps")) {
			wanted = !strcmp(word, kind);
			continue;
		}
		if (!next_word(&rest, argument, sizeof argument) || !value_number(argument, &amount))
			return false;
		if (!strcmp(word, "memory"))
			out->usedGpuMemory = amount;
		else if (!strcmp(word, "gi"))
			out->gpuInstanceId = (u32)amount;
		else if (!strcmp(word, "ci"))
			out->computeInstanceId = (u32)amount;
	}
	return wanted;
}

static int processes(const struct call *call, const char *kind, u32 *count, ProcessInfo *infos)
{
	char prefix[KEY];
	size_t entries;
	u32 found = 0;
	if (!count || (*count && !infos))
		return INVALID_ARGUMENT;
	int length = snprintf(prefix, sizeof prefix, "%sprocess.", call->prefix);
	const struct entry *entry = file_range(call->file, prefix, &entries);
	for (; entries--; entry++) {
		ProcessInfo info;
		if (process(entry, (size_t)length, kind, &info) && found++ < *count)
			infos[found - 1] = info;
	}
	int result = found <= *count ? SUCCESS : INSUFFICIENT_SIZE;
	*count = found;
	return result;
}

EXPORT int nvmlDeviceGetComputeRunningProcesses_v3(Device device, u32 *count, ProcessInfo *infos)
	ANSWER(device, processes(c, "compute", count, infos))

EXPORT int nvmlDeviceGetGraphicsRunningProcesses_v3(Device device, u32 *count, ProcessInfo *infos)
	ANSWER(device, processes(c, "graphics", count, infos))

EXPORT int nvmlDeviceGetMPSComputeRunningProcesses_v3(Device device, u32 *count, ProcessInfo *infos)
	ANSWER(device, processes(c, "mps", count, infos))
