package nvidia

import "github.com/accelmux/accelmux/backends/sdk"

// declarations are the attributes and capacities that devices may have; README.md has them, too.
var declarations = []*sdk.Declaration{
	sdk.Declare(sdk.KindString, "type", "gpu or mig, whatever the class"),
	sdk.Declare(sdk.KindString, "uuid", "the ID"),
	sdk.Declare(sdk.KindString, "model", "the name without NVIDIA: H100 80GB HBM3"),
	sdk.Declare(sdk.KindString, "productName", "the whole name: NVIDIA H100 80GB HBM3"),
	sdk.Declare(sdk.KindString, "architecture", "Ampere, Ada Lovelace, Hopper ..."),
	sdk.Declare(sdk.KindString, "brand", "Nvidia, Tesla, GeForce ..."),
	sdk.Declare(sdk.KindString, "addressingMode", "how the GPU reaches memory of the system: HMM, ATS or None"),
	sdk.Declare(sdk.KindVersion, "cudaComputeCapability", "9.0.0"),
	sdk.Declare(sdk.KindVersion, "driverVersion", "580.65.6"),
	sdk.Declare(sdk.KindString, "driverVersionFull", "the same as NVIDIA writes it: 580.65.06"),
	sdk.Declare(sdk.KindVersion, "cudaDriverVersion", "the newest CUDA that the driver supports: 13.0.0"),
	sdk.Declare(sdk.KindBool, "migEnabled", "whether the GPU is in MIG mode"),
	sdk.Declare(sdk.KindInt, "minor", "N of /dev/nvidiaN, of a GPU"),
	sdk.Declare(sdk.KindString, "serial", "the serial number of the GPU's board"),
	sdk.Declare(sdk.KindString, "fabricCluster", "the UUID of the NVLink fabric that the GPU has joined"),
	sdk.Declare(sdk.KindInt, "fabricClique", "the GPU's clique in that fabric"),
	sdk.Declare(sdk.KindString, "sharing", "mps or time-slicing, if the settings have the GPU shared"),
	sdk.Declare(sdk.KindInt, "sharingReplicas", "by how many containers MPS has it shared"),
	sdk.Declare(sdk.KindString, "parentUUID", "the GPU of a MIG device"),
	sdk.Declare(sdk.KindString, "profile", "the profile of a MIG device: 1g.10gb"),
	sdk.Declare(sdk.KindInt, "gpuInstance", "NVIDIA's number of a MIG device's GPU instance"),
	sdk.Declare(sdk.KindInt, "computeInstance", "NVIDIA's number of its compute instance"),
	sdk.Declare(sdk.KindCapacity, "memory", "bytes"),
	sdk.Declare(sdk.KindCapacity, "powerLimit", "watts, of a GPU"),
	sdk.Declare(sdk.KindCapacity, "threads", "100 percent, of a GPU with shares by claims"),
	sdk.Declare(sdk.KindCapacity, "multiprocessors", "how many a MIG device has"),
	sdk.Declare(sdk.KindCapacity, "copyEngines", "how many a MIG device has"),
	sdk.Declare(sdk.KindCapacity, "decoders", "how many a MIG device has"),
	sdk.Declare(sdk.KindCapacity, "encoders", "how many a MIG device has"),
	sdk.Declare(sdk.KindCapacity, "jpegEngines", "how many a MIG device has"),
	sdk.Declare(sdk.KindCapacity, "ofaEngines", "how many a MIG device has"),
	sdk.Declare(sdk.KindCapacity, "memorySlice*", "1, of each slice of the GPU's memory that a MIG device has"),
}
