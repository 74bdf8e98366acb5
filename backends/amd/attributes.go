package amd

import "github.com/accelmux/accelmux/backends/sdk"

// declarations are the attributes and capacities that devices may have; README.md has them, too.
var declarations = []*sdk.Declaration{
	sdk.Declare(sdk.KindString, "type", "amdgpu or amdgpu-partition, whatever the class"),
	sdk.Declare(sdk.KindString, "model", "the name without AMD: Instinct MI300X"),
	sdk.Declare(sdk.KindString, "productName", "the whole name as AMD's tools for Kubernetes write it: AMD_Instinct_MI300X_OAM"),
	sdk.Declare(sdk.KindString, "family", "CDNA3"),
	sdk.Declare(sdk.KindString, "gfxVersion", "gfx942"),
	sdk.Declare(sdk.KindBool, "integrated", "whether the GPU is part of a processor"),
	sdk.Declare(sdk.KindBool, "compute", "whether the driver can compute on it"),
	sdk.Declare(sdk.KindBool, "partitioned", "whether the GPU is split"),
	sdk.Declare(sdk.KindInt, "partition", "the number of the partition"),
	sdk.Declare(sdk.KindString, "computePartition", "the compute mode: cpx"),
	sdk.Declare(sdk.KindString, "memoryPartition", "the memory mode: nps4"),
	sdk.Declare(sdk.KindString, "partitionProfile", "both: cpx_nps4"),
	sdk.Declare(sdk.KindString, "availableComputePartitions", "the compute modes that it can be switched to, with commas: spx,dpx,qpx,cpx"),
	sdk.Declare(sdk.KindString, "availableMemoryPartitions", "the memory modes: nps1,nps2,nps4"),
	sdk.Declare(sdk.KindString, "hive", "the XGMI hive, 16 hexadecimal digits"),
	sdk.Declare(sdk.KindString, "uniqueID", "the serial number of the silicon, 16 hexadecimal digits"),
	sdk.Declare(sdk.KindString, "deviceID", "the PCI device ID, which all GPUs of a model have: 0x74a1"),
	sdk.Declare(sdk.KindInt, "numaNode", "the NUMA node"),
	sdk.Declare(sdk.KindInt, "gpuIndex", "of a partition that is made for claims: the place of its GPU among those of the node, by PCI address, from 0"),
	sdk.Declare(sdk.KindString, "pciAddr", "of such a partition: the PCI address of its GPU"),
	sdk.Declare(sdk.KindVersion, "driverVersion", "of AMD's own driver: 6.10.5"),
	sdk.Declare(sdk.KindString, "driverVersionFull", "the same as AMD writes it: 6.10.05"),
	sdk.Declare(sdk.KindCapacity, "memory", "bytes"),
	sdk.Declare(sdk.KindCapacity, "computeUnits", "how many"),
	sdk.Declare(sdk.KindCapacity, "simdUnits", "how many"),
	sdk.Declare(sdk.KindCapacity, "computeDies", "how many"),
	sdk.Declare(sdk.KindCapacity, "partitions", "1, of a partition that is made for claims"),
}
