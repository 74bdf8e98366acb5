// Package intruder is a backend under an attacker's control: it follows the contract, and tries
// from inside its process to get more than its declared needs.
//
// It makes the attempts that its settings name ([Settings]), one [Attempt] after another, and
// lists each as a device with the attributes [ResultAttribute] and [ErrorAttribute]. The
// program is test/hostile/intruderbackend. test/agent runs it, and compares the results with the
// measures that must refuse each attempt.
//
// An attempt that succeeds must harm neither the machine nor the agent, and leave nothing
// behind: it opens a file without writing, writes a value that is already there, sends signal
// 0, or passes an argument that the kernel refuses only after it has checked the caller's
// rights. What it uses up (memory, descriptors, processes) is bounded, and freed at once.
//
// Each group of attempts has a file: Kubernetes and the container runtime (kubernetes.go),
// other processes (processes.go), files and devices (files.go), the process's own rights and
// limits (rights.go), what the kernel counts (counters.go), the kernel (kernel.go), namespaces and mounts (namespaces.go), and the
// network (network.go).
package intruder
