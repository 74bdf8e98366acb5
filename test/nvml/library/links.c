/* How GPUs are connected: NVLink, fabric, PCIe closeness. */
#include <stdio.h>
#include <string.h>

#include "double.h"

/* links = <how many the GPU has>; a link that nothing is said of is inactive. */
static int link_there(const struct call *call, u32 link)
{
	u32 links;
	int result = number(call, &links, "links");
	if (result != SUCCESS)
		return result;
	return link < links && link < MAX_LINKS ? SUCCESS : INVALID_ARGUMENT;
}

static int link_state(const struct call *call, u32 link, u32 *active)
{
	int result = link_there(call, link);
	if (result != SUCCESS || !active)
		return active ? result : INVALID_ARGUMENT;
	*active = or_zero(call, "link.%u.state", link);
	return SUCCESS;
}

EXPORT int nvmlDeviceGetNvLinkState(Device device, u32 link, u32 *active)
	ANSWER(device, link_state(c, link, active))

/* link.<n>.remote = <PCI bus ID>, or "gpu <slot>" for where that one is. */
static int link_remote(const struct call *call, u32 link, PciInfo *pci)
{
	int result = link_there(call, link);
	const char *remote = get(call, "link.%u.remote", link);
	u32 slot;
	if (result != SUCCESS || !pci)
		return pci ? result : INVALID_ARGUMENT;
	if (remote && sscanf(remote, "gpu %u", &slot) == 1) {
		char key[KEY];
		snprintf(key, sizeof key, "gpu.%u.pci", slot);
		remote = file_get(call->file, key);
	}
	if (!remote)
		return NOT_SUPPORTED;
	fill_pci(pci, remote);
	return SUCCESS;
}

EXPORT int nvmlDeviceGetNvLinkRemotePciInfo_v2(Device device, u32 link, PciInfo *pci)
	ANSWER(device, link_remote(c, link, pci))

static int link_type(const struct call *call, u32 link, u32 *type)
{
	int result = link_there(call, link);
	const char *value = get(call, "link.%u.type", link);
	if (result != SUCCESS || !type)
		return type ? result : INVALID_ARGUMENT;
	if (!value)
		return NOT_SUPPORTED;
	*type = !strcmp(value, "gpu") ? 0 : !strcmp(value, "switch") ? 2 : 255;
	return SUCCESS;
}

EXPORT int nvmlDeviceGetNvLinkRemoteDeviceType(Device device, u32 link, u32 *type)
	ANSWER(device, link_type(c, link, type))

/* What is said of the pair in this order counts, then the key without the other. */
static int closeness(const struct call *call, Device other, u32 *out)
{
	static const char *const levels[] = {"internal", "single", "multiple", "hostbridge", "node", "system"};
	int gpu, mig;
	if (!out || !handle_slots(other, &gpu, &mig))
		return INVALID_ARGUMENT;
	const char *value = get(call, "topology.%d", gpu);
	if (!value)
		value = get(call, "topology");
	if (!value)
		return NOT_SUPPORTED;
	for (u32 i = 0; i < sizeof levels / sizeof *levels; i++)
		if (!strcmp(value, levels[i])) {
			*out = i * 10;
			return SUCCESS;
		}
	return UNKNOWN;
}

EXPORT int nvmlDeviceGetTopologyCommonAncestor(Device device, Device other, u32 *level)
	ANSWER(device, closeness(c, other, level))

/* fabric.cluster: up to 16 bytes in hex. */
static int fabric(const struct call *call, GpuFabricInfo_v3 *out)
{
	const char *cluster = get(call, "fabric.cluster");
	u32 state;
	int result = number(call, &state, "fabric.state");
	if (result != SUCCESS)
		return result;
	*out = (GpuFabricInfo_v3){
		.version = out->version,
		.state = (u8)state,
		.status = or_zero(call, "fabric.status"),
		.cliqueId = or_zero(call, "fabric.clique"),
		.healthMask = or_zero(call, "fabric.health"),
		.healthSummary = (u8)or_zero(call, "fabric.health-summary"),
	};
	for (size_t i = 0; cluster && i < sizeof out->clusterUuid && strlen(cluster) >= 2 * i + 2; i++)
		sscanf(cluster + 2 * i, "%2hhx", &out->clusterUuid[i]);
	return SUCCESS;
}

static int fabric_v1(const struct call *call, GpuFabricInfo *out)
{
	GpuFabricInfo_v3 all = {0};
	if (!out)
		return INVALID_ARGUMENT;
	int result = fabric(call, &all);
	if (result != SUCCESS)
		return result;
	*out = (GpuFabricInfo){.status = all.status, .cliqueId = all.cliqueId, .state = all.state};
	memcpy(out->clusterUuid, all.clusterUuid, sizeof out->clusterUuid);
	return SUCCESS;
}

EXPORT int nvmlDeviceGetGpuFabricInfo(Device device, GpuFabricInfo *out)
	ANSWER(device, fabric_v1(c, out))

/* The second version is the third without its last member. */
static int fabric_versioned(const struct call *call, void *out)
{
	GpuFabricInfo_v3 all = {0};
	if (!out)
		return INVALID_ARGUMENT;
	memcpy(&all.version, out, sizeof all.version);
	size_t size = all.version == VERSION(GpuFabricInfo_v3, 3) ? sizeof(GpuFabricInfo_v3) : sizeof(GpuFabricInfo_v2);
	if (size == sizeof(GpuFabricInfo_v2) && all.version != VERSION(GpuFabricInfo_v2, 2))
		return VERSION_MISMATCH;
	int result = fabric(call, &all);
	if (result == SUCCESS)
		memcpy(out, &all, size);
	return result;
}

EXPORT int nvmlDeviceGetGpuFabricInfoV(Device device, void *out)
	ANSWER(device, fabric_versioned(c, out))
