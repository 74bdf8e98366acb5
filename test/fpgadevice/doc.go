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
// There are two ways to it. [Device.Open] is an ioctl.Opener for code in this process.
// [Device.Wrap] and [Device.Program] have a command, with all that it starts, meet the
// device with its own ioctls, unmodified:
//
//	cmd := exec.Command("accelmux-backend-fpga"); device.Wrap(cmd); cmd.Start()
//	device.Program(filepath.Join(backends, "accelmux-backend-fpga"), "/bin/accelmux-backend-fpga")
//
// The second is a filter of system calls (package trap) in that command, which hands ioctls
// of the drivers' types to this process; those of other files go on to the kernel. To the
// caller that is the real ioctl system call, and it needs no rights. A character device in
// user space (CUSE) would need a kernel module, which test machines lack.
//
// Writes to files of sysfs come the same way, if they are opened for writing only: a
// register of errors is cleared by writing what it has, as in the kernel, before the
// write is done.
//
// A container has mounts of its own: [Device.SeenAt] says where a program in it sees the
// tree. The directory of the device's socket, and this program, must be there, too.
//
// Tests of other modules use the program fpgamachine, which has the device in a process
// of its own.
//
// What a tree of files cannot show is left out: afu_id never answers EBUSY while a port
// is in reset; closing a port's node resets nothing.
package fpgadevice
