package fpga

import "github.com/accelmux/accelmux/backends/sdk"

// declarations are the attributes that devices may have, those of the drivers in alveo, ama, intel and manager among
// them; README.md has them, too.
var declarations = []*sdk.Declaration{
	sdk.Declare(sdk.KindString, "functionName", "the loaded function, in a form for names of resources: af-d84.244..."),
	sdk.Declare(sdk.KindString, "regionName", "the interface that bitstreams must fit, in a form for names of resources: region-9346..."),
	sdk.Declare(sdk.KindString, "platformName", "the same, of the class card"),
	sdk.Declare(sdk.KindString, "functionID", "the ID of the loaded function, 32 hexadecimal digits"),
	sdk.Declare(sdk.KindString, "interfaceID", "the ID of the interface, 32 hexadecimal digits"),
	sdk.Declare(sdk.KindString, "commonName", "ama_u30, of a U30 card"),
	sdk.Declare(sdk.KindString, "model", "the card"),
	sdk.Declare(sdk.KindString, "productName", "the name that the card reports, of an MA35D"),
	sdk.Declare(sdk.KindString, "serial", "the card's serial number"),
	sdk.Declare(sdk.KindString, "board", "the board that the card is on"),
	sdk.Declare(sdk.KindAny, "region", "the number of the region in the card; with the driver fpga-manager its name, if there are several"),
	sdk.Declare(sdk.KindBool, "virtual", "whether the PCI function is a virtual one"),
	sdk.Declare(sdk.KindString, "driver", "dfl, opae, xrt, ama or fpga-manager"),
	sdk.Declare(sdk.KindBool, "programmable", "whether containers can have it programmed"),
	sdk.Declare(sdk.KindString, "bitstream", "the file of a function for claims"),
	sdk.Declare(sdk.KindString, "deviceID", "the PCI device ID, of an Intel card: 0b30"),
	sdk.Declare(sdk.KindString, "bitstreamID", "the ID of an Intel card's static region"),
	sdk.Declare(sdk.KindString, "bitstreamMetadata", "further data of the same"),
	sdk.Declare(sdk.KindInt, "socket", "the socket of an Intel card's management engine"),
	sdk.Declare(sdk.KindInt, "ports", "how many ports an Intel card has"),
	sdk.Declare(sdk.KindString, "bmcVersion", "a firmware of an Intel card"),
	sdk.Declare(sdk.KindString, "bmcFirmwareVersion", "a firmware of an Intel card"),
	sdk.Declare(sdk.KindString, "niosFirmwareVersion", "a firmware of an Intel card"),
	sdk.Declare(sdk.KindString, "managerState", "the state that the kernel's FPGA manager reports"),
	sdk.Declare(sdk.KindBool, "programmed", "whether that state is operating"),
	sdk.Declare(sdk.KindString, "deviceTreeNode", "the FPGA manager's node in the device tree"),
	sdk.Declare(sdk.KindString, "firmwareName", "what the device tree has programmed"),
	sdk.Declare(sdk.KindBool, "virtualMachine", "whether an Alveo card has no management function here"),
	sdk.Declare(sdk.KindString, "shell", "an Alveo card's shell"),
	sdk.Declare(sdk.KindInt, "shellTimestamp", "the timestamp of the same"),
	sdk.Declare(sdk.KindString, "logicID", "the UUID of the same, 32 hexadecimal digits"),
}
