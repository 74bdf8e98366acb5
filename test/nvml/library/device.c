/* The system and its GPUs: how many, their handles, what they are. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "double.h"

/* Handles are addresses in here; nobody writes or reads it. */
static char handles[MAX_GPUS * (MAX_MIGS + 1)];

Device handle_of(int gpu, int mig)
{
	return &handles[gpu * (MAX_MIGS + 1) + mig + 1];
}

bool handle_slots(Device device, int *gpu, int *mig)
{
	if (device < handles || device >= handles + sizeof handles)
		return false;
	*gpu = (int)((device - handles) / (MAX_MIGS + 1));
	*mig = (int)((device - handles) % (MAX_MIGS + 1)) - 1;
	return true;
}

EXPORT int nvmlSystemGetDriverVersion(char *version, u32 size)
	ANSWER(NULL, text(c, version, size, "driver.version"))

EXPORT int nvmlSystemGetNVMLVersion(char *version, u32 size)
	ANSWER(NULL, text(c, version, size, "nvml.version"))

EXPORT int nvmlSystemGetCudaDriverVersion(u32 *version)
	ANSWER(NULL, number(c, version, "cuda.version"))

EXPORT int nvmlSystemGetCudaDriverVersion_v2(u32 *version)
	ANSWER(NULL, number(c, version, "cuda.version"))

EXPORT int nvmlSystemGetProcessName(u32 pid, char *name, u32 size)
	ANSWER(NULL, text(c, name, size, "process.%u.name", pid))

static int count(const struct call *call, u32 *out)
{
	if (!out)
		return INVALID_ARGUMENT;
	*out = (u32)__builtin_popcountll(call->gpus);
	return SUCCESS;
}

EXPORT int nvmlDeviceGetCount_v2(u32 *out)
	ANSWER(NULL, count(c, out))

static int hand_out(struct call *call, int gpu, int mig, Device *device)
{
	int result = locate(call, gpu, mig);
	if (result == SUCCESS)
		*device = handle_of(gpu, mig);
	return result;
}

static int by_index(struct call *call, u32 index, Device *device)
{
	for (int slot = 0; device && slot < MAX_GPUS; slot++)
		if (call->gpus >> slot & 1 && !index--)
			return hand_out(call, slot, NONE, device);
	return INVALID_ARGUMENT;
}

EXPORT int nvmlDeviceGetHandleByIndex_v2(u32 index, Device *device)
	ANSWER(NULL, by_index(c, index, device))

static int by_uuid(struct call *call, const char *uuid, Device *device)
{
	if (!uuid || !device)
		return INVALID_ARGUMENT;
	size_t entries;
	const struct entry *entry = file_range(call->file, "gpu.", &entries);
	for (; entries--; entry++) {
		int gpu, mig, stop = 0;
		if (strcmp(entry->value, uuid))
			continue;
		if (sscanf(entry->key, "gpu.%2d.uuid%n", &gpu, &stop) == 1 && stop && !entry->key[stop])
			mig = NONE;
		else if (sscanf(entry->key, "gpu.%2d.mig.%2d.uuid%n", &gpu, &mig, &stop) != 2 || !stop || entry->key[stop])
			continue;
		if (gpu < 0 || gpu >= MAX_GPUS || mig < NONE || mig >= MAX_MIGS || !(call->gpus >> gpu & 1))
			continue;
		return hand_out(call, gpu, mig, device);
	}
	return NOT_FOUND;
}

EXPORT int nvmlDeviceGetHandleByUUID(const char *uuid, Device *device)
	ANSWER(NULL, by_uuid(c, uuid, device))

/* "domain:bus:device.function" in hex, of any width; nothing without colons. */
static bool parse_bus_id(const char *id, u32 out[3])
{
	u32 function;
	return id && sscanf(id, "%x:%x:%x.%x", &out[0], &out[1], &out[2], &function) == 4;
}

static int by_bus_id(struct call *call, const char *id, Device *device)
{
	u32 wanted[3], has[3];
	if (!device || !parse_bus_id(id, wanted))
		return INVALID_ARGUMENT;
	for (int slot = 0; slot < MAX_GPUS; slot++) {
		char key[KEY];
		snprintf(key, sizeof key, "gpu.%d.pci", slot);
		if (call->gpus >> slot & 1 && parse_bus_id(file_get(call->file, key), has) && !memcmp(has, wanted, sizeof has))
			return hand_out(call, slot, NONE, device);
	}
	return NOT_FOUND;
}

EXPORT int nvmlDeviceGetHandleByPciBusId_v2(const char *id, Device *device)
	ANSWER(NULL, by_bus_id(c, id, device))

static int index_of(const struct call *call, u32 *index)
{
	if (!index)
		return INVALID_ARGUMENT;
	*index = call->mig != NONE ? (u32)call->mig
				   : (u32)__builtin_popcountll(call->gpus & ((1ull << call->gpu) - 1));
	return SUCCESS;
}

EXPORT int nvmlDeviceGetIndex(Device device, u32 *index)
	ANSWER(device, index_of(c, index))

EXPORT int nvmlDeviceGetName(Device device, char *name, u32 size)
	ANSWER(device, text(c, name, size, "name"))

EXPORT int nvmlDeviceGetUUID(Device device, char *uuid, u32 size)
	ANSWER(device, text(c, uuid, size, "uuid"))

EXPORT int nvmlDeviceGetSerial(Device device, char *serial, u32 size)
	ANSWER(device, text(c, serial, size, "serial"))

EXPORT int nvmlDeviceGetBoardPartNumber(Device device, char *part, u32 size)
	ANSWER(device, text(c, part, size, "board-part-number"))

EXPORT int nvmlDeviceGetVbiosVersion(Device device, char *version, u32 size)
	ANSWER(device, text(c, version, size, "vbios"))

EXPORT int nvmlDeviceGetMinorNumber(Device device, u32 *minor)
	ANSWER(device, number(c, minor, "minor"))

EXPORT int nvmlDeviceGetBrand(Device device, u32 *brand)
	ANSWER(device, number(c, brand, "brand"))

EXPORT int nvmlDeviceGetArchitecture(Device device, u32 *architecture)
	ANSWER(device, number(c, architecture, "architecture"))

EXPORT int nvmlDeviceGetBoardId(Device device, u32 *board)
	ANSWER(device, number(c, board, "board-id"))

EXPORT int nvmlDeviceGetModuleId(Device device, u32 *module)
	ANSWER(device, number(c, module, "module-id"))

EXPORT int nvmlDeviceGetNumaNodeId(Device device, u32 *node)
	ANSWER(device, number(c, node, "numa-node-id"))

EXPORT int nvmlDeviceGetComputeMode(Device device, u32 *mode)
	ANSWER(device, number(c, mode, "compute-mode"))

EXPORT int nvmlDeviceGetPersistenceMode(Device device, u32 *mode)
	ANSWER(device, number(c, mode, "persistence-mode"))

EXPORT int nvmlDeviceGetVirtualizationMode(Device device, u32 *mode)
	ANSWER(device, number(c, mode, "virtualization-mode"))

/* "9.0" */
static int capability(const struct call *call, int *major, int *minor)
{
	const char *value = get(call, "compute-capability");
	if (!major || !minor)
		return INVALID_ARGUMENT;
	if (!value)
		return NOT_SUPPORTED;
	return sscanf(value, "%d.%d", major, minor) == 2 ? SUCCESS : UNKNOWN;
}

EXPORT int nvmlDeviceGetCudaComputeCapability(Device device, int *major, int *minor)
	ANSWER(device, capability(c, major, minor))

static int addressing(const struct call *call, DeviceAddressingMode *mode)
{
	if (!mode)
		return INVALID_ARGUMENT;
	if (mode->version != VERSION(DeviceAddressingMode, 1))
		return VERSION_MISMATCH;
	return number(call, &mode->value, "addressing-mode");
}

EXPORT int nvmlDeviceGetAddressingMode(Device device, DeviceAddressingMode *mode)
	ANSWER(device, addressing(c, mode))

/* The text is handed out as it stands, whatever its widths. */
void fill_pci(PciInfo *pci, const char *bus_id)
{
	u32 address[3] = {0};
	memset(pci, 0, sizeof *pci);
	if (parse_bus_id(bus_id, address))
		snprintf(pci->busIdLegacy, sizeof pci->busIdLegacy, "%04X:%02X:%02X.0",
			 address[0] & 0xFFFF, address[1] & 0xFF, address[2] & 0x1F);
	value_text(bus_id, pci->busId, sizeof pci->busId);
	pci->domain = address[0];
	pci->bus = address[1];
	pci->device = address[2];
}

static int pci_info(const struct call *call, PciInfo *pci)
{
	const char *id = get(call, "pci");
	if (!pci)
		return INVALID_ARGUMENT;
	if (!id)
		return NOT_SUPPORTED;
	fill_pci(pci, id);
	pci->pciDeviceId = or_zero(call, "pci.device-id");
	pci->pciSubSystemId = or_zero(call, "pci.subsystem-id");
	return SUCCESS;
}

EXPORT int nvmlDeviceGetPciInfo_v3(Device device, PciInfo *pci)
	ANSWER(device, pci_info(c, pci))

static int pci_info_ext(const struct call *call, PciInfoExt *ext)
{
	PciInfo pci;
	if (!ext)
		return INVALID_ARGUMENT;
	if (ext->version != VERSION(PciInfoExt, 1))
		return VERSION_MISMATCH;
	int result = pci_info(call, &pci);
	if (result != SUCCESS)
		return result;
	*ext = (PciInfoExt){
		.version = ext->version,
		.domain = pci.domain,
		.bus = pci.bus,
		.device = pci.device,
		.pciDeviceId = pci.pciDeviceId,
		.pciSubSystemId = pci.pciSubSystemId,
		.baseClass = 0x03,
		.subClass = or_zero(call, "pci.subclass"),
	};
	memcpy(ext->busId, pci.busId, sizeof ext->busId);
	return SUCCESS;
}

EXPORT int nvmlDeviceGetPciInfoExt(Device device, PciInfoExt *pci)
	ANSWER(device, pci_info_ext(c, pci))
