// Package fpgadevice is the device side of Intel's FPGA drivers over a tree of package
// fpgatree: what DFL and OPAE answer to ioctls of their nodes, and what that changes in
// sysfs. It checks each argument as the kernel does, knows by its content which
// accelerator function a bitstream has, and notes what it was asked.
//
//	tree, _ := fpgatree.Write(sysroot.TempDir(t), fpgatree.NewN3000())
//	device := fpgadevice.New(t, tree)
//	crypto := fpgadevice.Bitstream{Interface: "a5d7…", AFU: "9aef…", Payload: payload}
//	device.Know(crypto) // crypto.GBS() is the file for the backend
//	device.Next(fpgadevice.Answer{Errno: unix.EIO})
//
// [Device.Open] opens nodes for code of this process, [Device.Write] writes its files of
// sysfs: a register of errors is cleared by writing what it has, as in the kernel.
//
// What a tree of files cannot show is left out: afu_id never answers EBUSY while a port
// is in reset; closing a port's node resets nothing.
package fpgadevice
