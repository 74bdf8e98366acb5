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

EXPORT int nvmlSystemGetCudaDriverVersion(u32 *version)
	ANSWER(NULL, number(c, version, "cuda.version"))

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

/* "domain:bus:device.function" in hex, of any width; nothing without colons. */
static bool parse_bus_id(const char *id, u32 out[3])
{
	u32 function;
	return id && sscanf(id, "%x:%x:%x.%x", &out[0], &out[1], &out[2], &function) == 4;
}

EXPORT int nvmlDeviceGetName(Device device, char *name, u32 size)
	ANSWER(device, text(c, name, size, "name"))

EXPORT int nvmlDeviceGetUUID(Device device, char *uuid, u32 size)
	ANSWER(device, text(c, uuid, size, "uuid"))

EXPORT int nvmlDeviceGetSerial(Device device, char *serial, u32 size)
	ANSWER(device, text(c, serial, size, "serial"))

EXPORT int nvmlDeviceGetMinorNumber(Device device, u32 *minor)
	ANSWER(device, number(c, minor, "minor"))

EXPORT int nvmlDeviceGetArchitecture(Device device, u32 *architecture)
	ANSWER(device, number(c, architecture, "architecture"))

EXPORT int nvmlDeviceGetBrand(Device device, u32 *brand)
	ANSWER(device, number(c, brand, "brand"))

EXPORT int nvmlDeviceGetAddressingMode(Device device, DeviceAddressingMode *out)
	ANSWER(device, out ? number(c, &out->value, "addressing-mode") : INVALID_ARGUMENT)

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
