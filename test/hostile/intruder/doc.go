// Package intruder is a backend that has been taken over by an attacker: it speaks the
// contract correctly, and tries from inside its process what would give it more than its
// declared needs.
//
// It attempts that when its settings say so ([Settings]), one [Attempt] after another, and
// lists each as a device with the attributes [ResultAttribute] and [ErrorAttribute]. The
// program is test/hostile/intruderbackend; test/agent runs it and test/agent/intruder_test.go
// says what has to refuse each attempt.
//
// An attempt that succeeds must harm neither the machine nor the agent, and leave nothing
// behind: it opens a file without writing, writes a value that is already there, sends signal
// 0, or passes an argument that the kernel refuses only after it has checked the caller's
// rights. What it uses up (memory, descriptors, processes) is bounded, and freed at once.
//
// The attempts are in a file a group: Kubernetes and the container runtime (kubernetes.go),
// other processes (processes.go), files and devices (files.go), the process's own rights and
// limits (rights.go), the kernel (kernel.go), namespaces and mounts (namespaces.go), and the
// network (network.go).
package intruder
