/* What the double needs of NVML's binary interface, written from the published
 * one: plain C layouts on 64-bit Linux. sizes.c prints them, and a Go test
 * compares them with go-nvml's. Names are NVML's, without its prefix where
 * they are types. */
#ifndef ACCELMUX_NVML_ABI_H
#define ACCELMUX_NVML_ABI_H

typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef const char *Device; /* opaque: an address inside a table of handles */
typedef struct set *EventSet;
typedef const char *GpuInstance; /* opaque, too */
typedef const char *ComputeInstance;

enum {
	SUCCESS = 0,
	UNINITIALIZED = 1,
	INVALID_ARGUMENT = 2,
	NOT_SUPPORTED = 3,
	NOT_FOUND = 6,
	INSUFFICIENT_SIZE = 7,
	DRIVER_NOT_LOADED = 9,
	TIMEOUT = 10,
	GPU_IS_LOST = 15,
	IN_USE = 19,
	INSUFFICIENT_RESOURCES = 23,
	VERSION_MISMATCH = 25,
	UNKNOWN = 999,
};

/* A versioned struct starts with its size and its version. */
#define VERSION(type, n) ((u32)(sizeof(type) | (u32)(n) << 24))

typedef struct {
	char busIdLegacy[16];
	u32 domain, bus, device, pciDeviceId, pciSubSystemId;
	char busId[32];
} PciInfo;

typedef struct {
	u64 total, free, used;
} Memory;

typedef struct {
	u32 gpu, memory;
} Utilization;

typedef struct {
	u32 version, channel, tpc;
} RepairStatus;

typedef struct {
	u32 unrepairable;
} UnrepairableMemoryStatus_v1;

typedef struct {
	u32 pid;
	u64 usedGpuMemory;
	u32 gpuInstanceId, computeInstanceId;
} ProcessInfo;

typedef struct {
	u32 version;
	u64 aggregateUncParity, aggregateUncSecDed, aggregateCor;
	u64 volatileUncParity, volatileUncSecDed, volatileCor;
	u64 bucketL2, bucketSm, bucketPcie, bucketMcu, bucketOther;
	u32 thresholdExceeded;
} EccSramErrorStatus;

typedef union {
	u32 ui;
	u64 ull;
} Value;

typedef struct {
	u32 fieldId, scopeId;
	long long timestamp, latencyUsec;
	u32 valueType, nvmlReturn;
	Value value;
} FieldValue;

typedef struct {
	u32 version, value;
} DeviceAddressingMode;

typedef struct {
	u32 multiprocessorCount, sharedCopyEngineCount, sharedDecoderCount;
	u32 sharedEncoderCount, sharedJpegCount, sharedOfaCount;
	u32 gpuInstanceSliceCount, computeInstanceSliceCount;
	u64 memorySizeMB;
} DeviceAttributes;

typedef struct {
	u32 start, size;
} GpuInstancePlacement;

typedef struct {
	u32 id, isP2pSupported, sliceCount, instanceCount, multiprocessorCount;
	u32 copyEngineCount, decoderCount, encoderCount, jpegCount, ofaCount;
	u64 memorySizeMB;
} GpuInstanceProfileInfo;

typedef struct {
	Device device;
	u32 id, profileId;
	GpuInstancePlacement placement;
} GpuInstanceInfo;

typedef struct {
	u32 id, sliceCount, instanceCount, multiprocessorCount;
	u32 copyEngineCount, decoderCount, encoderCount, jpegCount, ofaCount;
} ComputeInstanceProfileInfo;

typedef struct {
	u8 clusterUuid[16];
	u32 status, cliqueId;
	u8 state;
} GpuFabricInfo;

typedef struct {
	u32 version;
	u8 clusterUuid[16];
	u32 status, cliqueId;
	u8 state;
	u32 healthMask;
} GpuFabricInfo_v2;

typedef struct {
	u32 version;
	u8 clusterUuid[16];
	u32 status, cliqueId;
	u8 state;
	u32 healthMask;
	u8 healthSummary;
} GpuFabricInfo_v3;

typedef struct {
	Device device;
	u64 eventType, eventData;
	u32 gpuInstanceId, computeInstanceId;
} EventData;

#endif
