/* Prints the size of every struct of abi.h, for the test that compares them
 * with go-nvml's. Not part of the library. */
#include <stdio.h>

#include "abi.h"

#define PRINT(type) printf(#type " %zu\n", sizeof(type))

int main(void)
{
	PRINT(PciInfo);
	PRINT(PciInfoExt);
	PRINT(Memory);
	PRINT(Memory_v2);
	PRINT(Utilization);
	PRINT(Temperature);
	PRINT(MarginTemperature);
	PRINT(DeviceAddressingMode);
	PRINT(RepairStatus);
	PRINT(UnrepairableMemoryStatus_v1);
	PRINT(ProcessInfo);
	PRINT(RowRemapperHistogramValues);
	PRINT(RemappedRowsInfo_v2);
	PRINT(EccSramErrorStatus);
	PRINT(FieldValue);
	PRINT(DeviceAttributes);
	PRINT(GpuInstancePlacement);
	PRINT(GpuInstanceInfo);
	PRINT(ComputeInstanceInfo);
	PRINT(GpuInstanceProfileInfo);
	PRINT(ComputeInstanceProfileInfo);
	PRINT(GpuFabricInfo);
	PRINT(GpuFabricInfo_v2);
	PRINT(GpuFabricInfo_v3);
	PRINT(EventData);
	return 0;
}
