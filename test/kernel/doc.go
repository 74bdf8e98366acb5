// Package kernel holds the scenarios of described devices on a real Linux kernel: real drivers of emulated hardware in a
// virtual machine ([machine]), where the project's deb runs under systemd. README.md says how one is written.
//
// A scenario is named by what must hold. It asserts what the stand-in kubelet received, and that a container that runc
// started with what the pod was given can open its nodes; never what the agent says of itself. Its comment names the
// change of the code that makes it fail.
package kernel
