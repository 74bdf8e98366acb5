// Package match finds the objects of a kind of device in the kernel's files: device nodes by
// path, members of a class, PCI functions, USB devices. It reads them and what they are on:
// the PCI function, the USB device and the IOMMU group. It opens no device, and is specific
// to no kind.
//
// Paths are below the host's roots, which tests can move. A tree may be malformed: a file may
// have any content, a link may lead anywhere. Then an object is left out with a problem, or a
// read returns an error.
package match
