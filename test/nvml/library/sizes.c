/* Prints the size of every struct of abi.h, for the test that compares them
 * with go-nvml's. Not part of the library. */
#include <stdio.h>

#include "abi.h"

#define PRINT(type) printf(#type " %zu\n", sizeof(type))

int main(void)
{
	PRINT(PciInfo);
	PRINT(Memory);
	PRINT(Utilization);
	PRINT(RepairStatus);
	PRINT(UnrepairableMemoryStatus_v1);
	PRINT(ProcessInfo);
	PRINT(EccSramErrorStatus);
	PRINT(FieldValue);
	PRINT(DeviceAddressingMode);
	PRINT(DeviceAttributes);
	PRINT(GpuInstancePlacement);
	PRINT(GpuInstanceProfileInfo);
	PRINT(GpuInstanceInfo);
	PRINT(ComputeInstanceProfileInfo);
	PRINT(GpuFabricInfo);
	PRINT(GpuFabricInfo_v2);
	PRINT(GpuFabricInfo_v3);
	PRINT(EventData);
	return 0;
}
