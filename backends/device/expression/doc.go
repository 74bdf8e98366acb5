// Package expression evaluates the expressions of a description, in CEL, about one object of
// sysfs. They are compiled once. A template is text in which {expression} is replaced.
//
// Variables:
//
//	name, node, kind   the object's name, its device node, and the kind that it is of
//	self               the object: a directory of sysfs
//	pci                the PCI function that it is, or is on
//	usb                the USB device that it is, or is on
//	iommu              the IOMMU group of the PCI function
//	sys                all of /sys
//
// Methods of self, pci, usb and sys, with a path below them:
//
//	text(file)      the file's content without white space around it
//	number(file)    the number in it: decimal, or hexadecimal after 0x
//	has(file)       whether the file, directory or link exists
//	link(file)      the last element of what a link points to, such as a driver's name
//	names(pattern)  the names of the files that match, sorted
//
// Fields of pci: address; vendor, device, class, revision, subsystemVendor and subsystemDevice
// (hexadecimal digits without 0x); driver ("" for none); virtualIndex, the number of a virtual
// function, as N of virtfnN. Of usb: vendor, product, serial,
// manufacturer, model, port (controller and ports, such as 0000:00:14.0-2.3), interface ("" for
// none), busNumber and deviceNumber. Of iommu: group, its number.
//
// Beside CEL's own functions there is version(text), for an attribute that is a semantic
// version, and those for strings of cel-go's extension, such as split, replace and substring.
//
// A read that fails is the error of the expression. It is fs.ErrNotExist for a file that is
// absent, and for pci, usb and iommu of an object that is on none. An expression has bounds: its
// length, and the cost of its evaluation.
package expression
