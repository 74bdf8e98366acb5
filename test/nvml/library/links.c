/* How GPUs are connected: NVLink, fabric, PCIe closeness, affinity. */
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

static int link_number(const struct call *call, u32 link, u32 *out, const char *what)
{
	int result = link_there(call, link);
	return result == SUCCESS ? number(call, out, "link.%u.%s", link, what) : result;
}

EXPORT int nvmlDeviceGetNvLinkVersion(Device device, u32 link, u32 *version)
	ANSWER(device, link_number(c, link, version, "version"))

EXPORT int nvmlDeviceGetNvLinkCapability(Device device, u32 link, u32 capability, u32 *out)
{
	char what[32];
	snprintf(what, sizeof what, "capability.%u", capability);
	ANSWER(device, link_number(c, link, out, what))
}

static int link_errors(const struct call *call, u32 link, u32 counter, u64 *out)
{
	int result = link_there(call, link);
	return result == SUCCESS ? number64(call, out, "link.%u.errors.%u", link, counter) : result;
}

EXPORT int nvmlDeviceGetNvLinkErrorCounter(Device device, u32 link, u32 counter, u64 *out)
	ANSWER(device, link_errors(c, link, counter, out))

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
	static const char *const names[] = {"gpu", "npu", "switch"};
	int result = link_there(call, link);
	const char *value = get(call, "link.%u.type", link);
	if (result != SUCCESS || !type)
		return type ? result : INVALID_ARGUMENT;
	if (!value)
		return NOT_SUPPORTED;
	long index = value_name(value, names, sizeof names / sizeof *names);
	*type = index == NONE ? 255 : (u32)index;
	return SUCCESS;
}

EXPORT int nvmlDeviceGetNvLinkRemoteDeviceType(Device device, u32 link, u32 *type)
	ANSWER(device, link_type(c, link, type))

/* The other GPU's slot, for what is said of a pair; what is said of the pair
 * in this order counts, then the key without the other. */
static int of_pair(const struct call *call, Device other, const char *what, u32 *out)
{
	static const char *const levels[] = {"internal", "single", "multiple", "hostbridge", "node", "system"};
	int gpu, mig;
	if (!out || !handle_slots(other, &gpu, &mig))
		return INVALID_ARGUMENT;
	const char *value = get(call, "%s.%d", what, gpu);
	if (!value)
		value = get(call, "%s", what);
	if (!value)
		return NOT_SUPPORTED;
	for (u32 i = 0; i < sizeof levels / sizeof *levels; i++)
		if (!strcmp(value, levels[i])) {
			*out = i * 10;
			return SUCCESS;
		}
	u64 number;
	if (!value_number(value, &number))
		return UNKNOWN;
	*out = (u32)number;
	return SUCCESS;
}

EXPORT int nvmlDeviceGetTopologyCommonAncestor(Device device, Device other, u32 *level)
	ANSWER(device, of_pair(c, other, "topology", level))

EXPORT int nvmlDeviceGetP2PStatus(Device device, Device other, u32 capability, u32 *status)
{
	char what[32];
	snprintf(what, sizeof what, "p2p.%u", capability);
	ANSWER(device, of_pair(c, other, what, status))
}

/* Masks of up to 64 bits; the rest of the caller's words is zero. */
static int affinity(const struct call *call, u32 words, unsigned long *mask, const char *what)
{
	u64 value;
	if (!mask || !words)
		return INVALID_ARGUMENT;
	int result = number64(call, &value, "affinity.%s", what);
	if (result != SUCCESS)
		return result;
	memset(mask, 0, words * sizeof *mask);
	*mask = value;
	return SUCCESS;
}

EXPORT int nvmlDeviceGetMemoryAffinity(Device device, u32 words, unsigned long *mask, u32 scope)
	ANSWER(device, scope > 1 ? INVALID_ARGUMENT : affinity(c, words, mask, "memory"))

EXPORT int nvmlDeviceGetCpuAffinity(Device device, u32 words, unsigned long *mask)
	ANSWER(device, affinity(c, words, mask, "cpu"))

EXPORT int nvmlDeviceGetCpuAffinityWithinScope(Device device, u32 words, unsigned long *mask, u32 scope)
	ANSWER(device, scope > 1 ? INVALID_ARGUMENT : affinity(c, words, mask, "cpu"))

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
